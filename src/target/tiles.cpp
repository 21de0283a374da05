#include "target/tiles.h"

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace xyntra {

Status allow_tiles() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool allowed = ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  if (allowed) return {};
#endif
  return failure(ErrorClass::Device, "the system does not let this process use AMX tile registers");
}

}  // namespace xyntra
