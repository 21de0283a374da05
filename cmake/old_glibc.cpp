// Functions that a C library of the floor lacks, for what was compiled with a newer one's headers (cmake/old_glibc.py).
#include <fcntl.h>
#include <malloc.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <pthread.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <ctime>

extern "C" {

// 2.32. Always "there may be other threads": what asks may then not leave out the atomic instructions.
char __libc_single_threaded = 0;

// 2.33. Before it they were inline functions of the headers. On these machines the kernel's struct is the C library's.
int stat(const char* path, struct stat* found) noexcept {
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, found, 0));
}
int lstat(const char* path, struct stat* found) noexcept {
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, found, AT_SYMLINK_NOFOLLOW));
}
int fstat(int file, struct stat* found) noexcept {
  return static_cast<int>(::syscall(SYS_fstat, file, found));
}
int fstat64(int file, struct stat64* found) noexcept {
  return static_cast<int>(::syscall(SYS_fstat, file, found));
}

// 2.33. LLVM counts with it what its own statistics print, which nobody asks for.
struct mallinfo2 mallinfo2() noexcept { return {}; }

// 2.36.
std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  while (::getrandom(&value, sizeof value, 0) != sizeof value) {
    if (errno != EINTR) std::abort();  // as glibc does: there is no way to say that it failed
  }
  return value;
}

// 2.30. The same wait by the clock that pthread_cond_timedwait() takes.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  constexpr long kSecond = 1'000'000'000;
  timespec now = {}, real = {};
  if (::clock_gettime(clock, &now) != 0 || ::clock_gettime(CLOCK_REALTIME, &real) != 0) return EINVAL;
  timespec end = {until->tv_sec - now.tv_sec + real.tv_sec, until->tv_nsec - now.tv_nsec + real.tv_nsec};
  for (; end.tv_nsec < 0; end.tv_nsec += kSecond) --end.tv_sec;
  for (; end.tv_nsec >= kSecond; end.tv_nsec -= kSecond) ++end.tv_sec;
  return ::pthread_cond_timedwait(condition, mutex, &end);
}

// 2.38. What C23 adds to them, numbers that begin with 0b, is left out. The headers would rename these calls, too.
long old_strtol(const char*, char**, int) __asm__("strtol");
unsigned long old_strtoul(const char*, char**, int) __asm__("strtoul");
long long old_strtoll(const char*, char**, int) __asm__("strtoll");
unsigned long long old_strtoull(const char*, char**, int) __asm__("strtoull");
int old_vsscanf(const char*, const char*, va_list) __asm__("vsscanf");
long __isoc23_strtol(const char* text, char** end, int base) { return old_strtol(text, end, base); }
unsigned long __isoc23_strtoul(const char* text, char** end, int base) {
  return old_strtoul(text, end, base);
}
long long __isoc23_strtoll(const char* text, char** end, int base) { return old_strtoll(text, end, base); }
unsigned long long __isoc23_strtoull(const char* text, char** end, int base) {
  return old_strtoull(text, end, base);
}
int __isoc23_sscanf(const char* text, const char* format, ...) {
  va_list values;
  va_start(values, format);
  const int count = old_vsscanf(text, format, values);
  va_end(values);
  return count;
}

}  // extern "C"
