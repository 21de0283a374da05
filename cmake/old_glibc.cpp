// Functions that a C library of the floor lacks, for what was compiled with a newer one's headers (cmake/old_glibc.py).
#include <fcntl.h>
#include <malloc.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

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

}  // extern "C"
