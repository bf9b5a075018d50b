// Clocks that a test sets, loaded before the C library: as many seconds are added to the wall clock and to the monotonic one
// as the first and the second number of the file STATOR_TEST_CLOCK say.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offsets;

// The C library's own, which this file replaces.
static long (*ask)(long number, ...);

__attribute__((constructor)) static void attach(void) {
  *(void **)&ask = dlsym(RTLD_NEXT, "syscall");
  const char *path = getenv("STATOR_TEST_CLOCK");
  int file = path ? open(path, O_RDONLY) : -1;
  if (file < 0) return;
  void *mapped = mmap(NULL, 2 * sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) offsets = mapped;
}

static int64_t offset_of(clockid_t clock) {
  if (!offsets) return 0;
  switch (clock) {
  case CLOCK_REALTIME:
  case CLOCK_REALTIME_COARSE:
    return offsets[0];
  case CLOCK_MONOTONIC:
  case CLOCK_MONOTONIC_RAW:
  case CLOCK_MONOTONIC_COARSE:
  case CLOCK_BOOTTIME:
    return offsets[1];
  default:
    return 0;
  }
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  if (!ask) attach();
  if (ask(SYS_clock_gettime, clock, now)) return -1;
  now->tv_sec += offset_of(clock);
  return 0;
}

time_t time(time_t *now) {
  struct timespec spec;
  clock_gettime(CLOCK_REALTIME, &spec);
  if (now) *now = spec.tv_sec;
  return spec.tv_sec;
}

int gettimeofday(struct timeval *now, void *zone) {
  (void)zone;
  struct timespec spec;
  clock_gettime(CLOCK_REALTIME, &spec);
  now->tv_sec = spec.tv_sec;
  now->tv_usec = spec.tv_nsec / 1000;
  return 0;
}

// A wait until a time of the clock above: the kernel has its own.
long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long);
  long d = va_arg(list, long), e = va_arg(list, long), f = va_arg(list, long);
  va_end(list);
  struct timespec until;
  int is_absolute = number == SYS_futex && (b & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET && d;
  if (is_absolute) {
    until = *(const struct timespec *)d;
    until.tv_sec -= offset_of(b & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC);
    if (until.tv_sec < 0) until.tv_sec = 0;
    d = (long)&until;
  }
  if (!ask) attach();
  return ask(number, a, b, c, d, e, f);
}
