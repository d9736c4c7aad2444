// SPDX-License-Identifier: Apache-2.0
// The worker that the launchers start. Its first act is to read the clock. What happened when goes as lines
// `EVENT NANOSECONDS RANK PID` (CLOCK_MONOTONIC) to the file in BENCH_STAMPS.
//   worker stamp               one line `first`, ends with 0
//   worker sleep               waits for ever; SIGTERM: a line `term`, then dies of it
//   worker fault RANK CODE     as sleep, but RANK ends with CODE after a random while (a line `death` just
//   before) worker once RANK CODE      as fault, if the file BENCH_ONCE is not there (RANK makes it); else as
//   stamp: `again` worker family              a child, and a child with a session of its own; all wait for
//   ever worker flood LINES BYTES   writes numbered lines of BYTES to stdout
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int stamps = -1;
static int rank;

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void stamp(const char* event, int64_t ns) {
  char line[96];
  const int length =
      snprintf(line, sizeof line, "%s %lld %d %d\n", event, (long long)ns, rank, (int)getpid());
  if (stamps >= 0 && write(stamps, line, (size_t)length) != length) {
    _exit(120);
  }
}

static void on_term(int signal_number) {
  stamp("term", now_ns());
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

// The rank as torchrun and cxxrun, hydra, or GNU parallel give it; 0 under the bare loop.
static int find_rank(void) {
  static const char* const kNames[] = {"RANK", "PMI_RANK", "PARALLEL_SEQ"};
  for (size_t i = 0; i < sizeof kNames / sizeof *kNames; ++i) {
    const char* const value = getenv(kNames[i]);
    if (value != NULL) {
      return atoi(value);
    }
  }
  return 0;
}

static void wait_for_ever(void) {
  for (;;) {
    pause();
  }
}

// Long enough for every worker of the job to be up; random, so that a launcher's polling interval shows.
static void settle(void) {
  const int64_t seed = now_ns() ^ ((int64_t)getpid() << 20);
  const struct timespec t = {.tv_sec = 0, .tv_nsec = 300000000 + (long)(seed / 7 % 200000000)};
  nanosleep(&t, NULL);
}

static int fault(const char* who, const char* code, const char* once) {
  signal(SIGTERM, on_term);
  if (rank != atoi(who)) {
    wait_for_ever();
  }
  settle();
  if (once != NULL) {
    const int made = open(once, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    close(made);
  }
  stamp("death", now_ns());
  _exit(atoi(code));
}

static int family(void) {
  const pid_t child = fork();
  if (child == 0) {
    stamp("child", now_ns());
    wait_for_ever();
  }
  const pid_t own_session = fork();
  if (own_session == 0) {
    setsid();
    stamp("session", now_ns());
    wait_for_ever();
  }
  stamp("worker", now_ns());
  wait_for_ever();
  return 0;
}

// `r<rank>n<8 digits>` and letters; written in blocks of about 64 KiB that may end in the middle of a line,
// as stdio does.
static int flood(long lines, long bytes) {
  enum { kBlock = 65536 };
  static char block[kBlock];
  size_t used = 0;
  char line[4096];
  if (bytes < 16 || bytes > (long)sizeof line) {
    return 2;
  }
  for (long i = 0; i < lines; ++i) {
    memset(line, 'x', sizeof line);
    snprintf(line, sizeof line, "r%dn%08ld", rank % 10, i);
    line[strlen(line)] = 'x';
    line[bytes - 1] = '\n';
    for (size_t done = 0; done < (size_t)bytes;) {
      const size_t step = (size_t)bytes - done < kBlock - used ? (size_t)bytes - done : kBlock - used;
      memcpy(block + used, line + done, step);
      used += step;
      done += step;
      if (used == kBlock || (i == lines - 1 && done == (size_t)bytes)) {
        for (size_t sent = 0; sent < used;) {
          const ssize_t n = write(STDOUT_FILENO, block + sent, used - sent);
          if (n <= 0) {
            return 1;
          }
          sent += (size_t)n;
        }
        used = 0;
      }
    }
  }
  return 0;
}

int main(int argc, char** argv) {
  const int64_t first_ns = now_ns();
  const char* const path = getenv("BENCH_STAMPS");
  if (path != NULL) {
    stamps = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  }
  rank = find_rank();
  const char* const mode = argc > 1 ? argv[1] : "stamp";
  const char* const once = getenv("BENCH_ONCE");
  if (strcmp(mode, "once") == 0 && once != NULL && access(once, F_OK) == 0) {
    stamp("again", first_ns);
    return 0;
  }
  stamp("first", first_ns);
  if (strcmp(mode, "stamp") == 0) {
    return 0;
  }
  if (strcmp(mode, "sleep") == 0) {
    signal(SIGTERM, on_term);
    wait_for_ever();
  }
  if (strcmp(mode, "family") == 0) {
    return family();
  }
  if (argc > 3 && strcmp(mode, "fault") == 0) {
    return fault(argv[2], argv[3], NULL);
  }
  if (argc > 3 && strcmp(mode, "once") == 0) {
    return fault(argv[2], argv[3], once);
  }
  if (argc > 3 && strcmp(mode, "flood") == 0) {
    return flood(atol(argv[2]), atol(argv[3]));
  }
  fputs("worker: unknown mode\n", stderr);
  return 2;
}
