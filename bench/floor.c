// SPDX-License-Identifier: Apache-2.0
// The floor: what starting N programs and waiting for them costs when nothing else is done.
//   floor N PROGRAM [ARGUMENT...]
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char** environ;

int main(int argc, char** argv) {
  if (argc < 3) {
    fputs("usage: floor N PROGRAM [ARGUMENT...]\n", stderr);
    return 2;
  }
  const long count = strtol(argv[1], NULL, 10);
  for (long i = 0; i < count; ++i) {
    pid_t pid = 0;
    const int error = posix_spawnp(&pid, argv[2], NULL, NULL, argv + 2, environ);
    if (error != 0) {
      fprintf(stderr, "floor: %s: %s\n", argv[2], strerror(error));
      return 127;
    }
  }
  int code = 0;
  for (long i = 0; i < count; ++i) {
    int status = 0;
    while (wait(&status) < 0 && errno == EINTR) {
    }
    if (status != 0) {
      code = 1;
    }
  }
  return code;
}
