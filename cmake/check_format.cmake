# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.25)
# Every C and C++ file is as scripts/format leaves it. Only by the version that the project uses (Debian 12's): others break lines
# elsewhere. cmake -DSOURCE=<repository> -P check_format.cmake
find_program(program NAMES clang-format-14 clang-format REQUIRED)
execute_process(COMMAND ${program} --version OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT version MATCHES "version 14\\.")
  message(FATAL_ERROR "${version}: this check needs clang-format 14")
endif()
execute_process(COMMAND ${SOURCE}/scripts/format --check RESULT_VARIABLE result)
if(result)
  message(FATAL_ERROR "not formatted: run scripts/format")
endif()
