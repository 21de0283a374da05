// Kernels count on round-to-nearest and on denormals being kept; a host program may have set something else.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace xyntra {

class FloatModeGuard {
 public:
#if defined(__x86_64__)
  FloatModeGuard() : saved_(_mm_getcsr()) {
    if (saved_ != kDefault) _mm_setcsr(kDefault);
  }
  ~FloatModeGuard() {
    // Status flags that kernels raised are not the host's business.
    if (_mm_getcsr() != saved_) _mm_setcsr(saved_);
  }

 private:
  static constexpr unsigned kDefault = 0x1F80;
  unsigned saved_;
#elif defined(__aarch64__)
  FloatModeGuard() {
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved_));
    if (saved_ != 0) __asm__ volatile("msr fpcr, %0" : : "r"(std::uint64_t{0}));
  }
  ~FloatModeGuard() {
    if (saved_ != 0) __asm__ volatile("msr fpcr, %0" : : "r"(saved_));
  }

 private:
  std::uint64_t saved_ = 0;
#else
  FloatModeGuard() = default;
#endif
 public:
  FloatModeGuard(const FloatModeGuard&) = delete;
  FloatModeGuard& operator=(const FloatModeGuard&) = delete;
};

}  // namespace xyntra
