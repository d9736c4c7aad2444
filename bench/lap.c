// SPDX-License-Identifier: Apache-2.0
// A stopwatch around one command: starts C copies of it, waits for their ends by pidfd (no polling interval),
// and prints one line of JSON with CLOCK_MONOTONIC nanoseconds. Whatever the command leaves behind falls to
// us (subreaper), is counted and killed, so that one measurement cannot disturb the next.
//   lap [-c COPIES] [-t TIMEOUT_MS] [-o FILE] COMMAND [ARGUMENT...]
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char** environ;

enum { kCopiesMax = 256 };

struct copy {
  pid_t pid;
  int pidfd;
  int64_t end_ns;
  int code;
};

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int exit_code(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void start(struct copy* copies, int count, char** command, const char* output) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, output, O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  for (int i = 0; i < count; ++i) {
    const int error = posix_spawnp(&copies[i].pid, command[0], &files, NULL, command, environ);
    if (error != 0) {
      fprintf(stderr, "lap: %s: %s\n", command[0], strerror(error));
      exit(125);
    }
  }
  for (int i = 0; i < count; ++i) {
    copies[i].pidfd = (int)syscall(SYS_pidfd_open, copies[i].pid, 0);
    copies[i].code = -1;
  }
  posix_spawn_file_actions_destroy(&files);
}

static void wait_for_all(struct copy* copies, int count, int64_t deadline_ns) {
  struct pollfd polls[kCopiesMax];
  for (int left = count; left > 0;) {
    for (int i = 0; i < count; ++i) {
      polls[i] = (struct pollfd){.fd = copies[i].end_ns == 0 ? copies[i].pidfd : -1, .events = POLLIN};
    }
    const int64_t wait_ms = (deadline_ns - now_ns()) / 1000000;
    if (poll(polls, (nfds_t)count, wait_ms < 0 ? 0 : (int)wait_ms) == 0 &&
        now_ns() >= deadline_ns - 1000000) {
      return;
    }
    const int64_t now = now_ns();
    for (int i = 0; i < count; ++i) {
      int status = 0;
      if (polls[i].fd >= 0 && polls[i].revents != 0 && waitpid(copies[i].pid, &status, 0) == copies[i].pid) {
        copies[i].end_ns = now;
        copies[i].code = exit_code(status);
        --left;
      }
    }
  }
}

// Kills every descendant, generation by generation as they fall to us. Returns how many there were.
static int sweep(void) {
  int killed = 0;
  for (;;) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE* children = fopen(path, "re");
    int pid = 0;
    int found = 0;
    while (children != NULL && fscanf(children, "%d", &pid) == 1) {
      kill(pid, SIGKILL);
      ++found;
    }
    if (children != NULL) {
      fclose(children);
    }
    if (found == 0) {
      return killed;
    }
    killed += found;
    while (found-- > 0 && waitpid(-1, NULL, 0) > 0) {
    }
  }
}

int main(int argc, char** argv) {
  int count = 1;
  long timeout_ms = 60000;
  const char* output = "/dev/null";
  for (int option = 0; (option = getopt(argc, argv, "+c:t:o:")) != -1;) {
    switch (option) {
      case 'c': count = atoi(optarg); break;
      case 't': timeout_ms = atol(optarg); break;
      case 'o': output = optarg; break;
      default: return 2;
    }
  }
  if (optind >= argc || count < 1 || count > kCopiesMax) {
    fputs("usage: lap [-c COPIES] [-t TIMEOUT_MS] [-o FILE] COMMAND [ARGUMENT...]\n", stderr);
    return 2;
  }
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  static struct copy copies[kCopiesMax];
  const int64_t start_ns = now_ns();
  start(copies, count, argv + optind, output);
  wait_for_all(copies, count, start_ns + (int64_t)timeout_ms * 1000000);
  const int left = sweep();
  printf("{\"start\": %lld, \"left\": %d, \"codes\": [", (long long)start_ns, left);
  for (int i = 0; i < count; ++i) {
    printf("%s%d", i == 0 ? "" : ", ", copies[i].code);
  }
  printf("], \"ends\": [");
  for (int i = 0; i < count; ++i) {
    printf("%s%lld", i == 0 ? "" : ", ", (long long)copies[i].end_ns);
  }
  puts("]}");
  return 0;
}
