// The fake CUDA driver in the place of a real one, for all tests of this program.
#pragma once

#include <dlfcn.h>

#include <cstdlib>

#include "fake_cuda/fake_cuda.h"

namespace xyntra {

inline const bool kFakeIsNamed = ::setenv("XYNTRA_CUDA", XYNTRA_FAKE_CUDA, 1) == 0;

template <class Function>
Function* of_fake(const char* symbol) {
  return reinterpret_cast<Function*>(::dlsym(::dlopen(XYNTRA_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL), symbol));
}
inline FakeCounts fake_counts() { return of_fake<FakeCounts()>("fake_cuda_counts")(); }

}  // namespace xyntra
