# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.25)
# Every header compiles alone, as the first include of a file.
# cmake -DSOURCE=<repository> -DCXX=<compiler> -DWORK=<folder> -P check_headers.cmake
file(MAKE_DIRECTORY ${WORK})
foreach(folder base net store worker_env launcher worker rendezvous agent cli smoke)
  file(GLOB_RECURSE headers RELATIVE ${SOURCE} ${SOURCE}/${folder}/*.hpp)
  foreach(header ${headers})
    if(header MATCHES "^worker/gloo")
      continue()  # needs Gloo's headers, which only its user has
    endif()
    string(REPLACE "/" "_" name ${header})
    # Twice: a header without a guard fails too.
    file(WRITE ${WORK}/${name}.cpp "#include \"${header}\"\n#include \"${header}\"\n")
    list(APPEND units ${WORK}/${name}.cpp)
  endforeach()
endforeach()
list(JOIN units "\n" text)
file(WRITE ${WORK}/list "${text}\n")
find_program(ccache ccache)
if(NOT ccache)
  set(ccache "")
endif()
execute_process(
  COMMAND sh -c "xargs -a '${WORK}/list' -P 2 -I UNIT ${ccache} '${CXX}' -std=c++20 -O0 -Wall -Wextra -Werror -I '${SOURCE}' -c UNIT -o UNIT.o"
  RESULT_VARIABLE result)
if(result)
  message(FATAL_ERROR "a header needs something that it does not include")
endif()
message("headers: ok")
