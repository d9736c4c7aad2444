// SPDX-License-Identifier: Apache-2.0
// Reads the merged output of flooding workers (worker.c) from stdin until its end and judges every line:
// whole if, after any prefix, it is a later line of its rank in full; else torn. Prints one line of JSON.
//   sink BYTES      BYTES of a worker's line, newline included
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kBuffer = 1 << 20, kRanks = 10 };

static long next_line[kRanks];
static long lines_whole, lines_torn, lines_other, prefixed;

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void judge(const char* line, size_t length, size_t payload) {
  if (length >= payload) {
    const char* const own = line + (length - payload);
    if (own[0] == 'r' && own[1] >= '0' && own[1] <= '9' && own[2] == 'n' && own[payload - 1] == 'x') {
      const int rank = own[1] - '0';
      char digits[9] = {0};
      memcpy(digits, own + 3, 8);
      const char* const fill = memchr(own + 11, 'x', 1);
      const int clean = fill != NULL && memcmp(fill, fill + 1, payload - 12) == 0 && length - payload < 64;
      if (clean && atol(digits) >= next_line[rank]) {
        next_line[rank] = atol(digits) + 1;
        ++lines_whole;
        prefixed += length > payload;
        return;
      }
    }
  }
  if (memmem(line, length, "xxxx", 4) != NULL) {
    ++lines_torn;
  } else {
    ++lines_other;  // a launcher's own words
  }
}

int main(int argc, char** argv) {
  const size_t payload = argc > 1 ? (size_t)atol(argv[1]) - 1 : 99;
  static char buffer[kBuffer];
  size_t held = 0;
  int64_t bytes = 0, first_ns = 0, last_ns = 0;
  fcntl(STDIN_FILENO, F_SETPIPE_SZ, kBuffer);
  for (;;) {
    const ssize_t n = read(STDIN_FILENO, buffer + held, sizeof buffer - held);
    if (n <= 0) {
      break;
    }
    last_ns = now_ns();
    first_ns = first_ns == 0 ? last_ns : first_ns;
    bytes += n;
    const size_t filled = held + (size_t)n;
    size_t at = 0;
    for (char* end = NULL; (end = memchr(buffer + at, '\n', filled - at)) != NULL;) {
      judge(buffer + at, (size_t)(end - (buffer + at)), payload);
      at = (size_t)(end - buffer) + 1;
    }
    held = filled - at;
    memmove(buffer, buffer + at, held);
    if (held == sizeof buffer) {
      held = 0;
      ++lines_torn;
    }
  }
  printf(
      "{\"bytes\": %lld, \"first\": %lld, \"last\": %lld, \"whole\": %ld, \"torn\": %ld, \"other\": %ld, "
      "\"prefixed\": %ld}\n",
      (long long)bytes, (long long)first_ns, (long long)last_ns, lines_whole, lines_torn, lines_other,
      prefixed);
  return 0;
}
