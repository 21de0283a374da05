// Which instruction set extensions the CPU has, and the operating system lets us use.
#include "target/target.h"
#include "target/tiles.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace xyntra {

#if defined(__x86_64__)
namespace {

struct Leaf {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Leaf cpuid(unsigned leaf, unsigned part = 0) {
  Leaf found;
  if (__get_cpuid_count(leaf, part, &found.eax, &found.ebx, &found.ecx, &found.edx) == 0) return {};
  return found;
}

// The register states that the system saves when it switches threads: an extension without its state is not usable.
std::uint64_t saved_states() {
  constexpr unsigned kXgetbv = 1u << 27;
  if ((cpuid(1).ecx & kXgetbv) == 0) return 0;
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

}  // namespace

std::vector<std::string_view> host_features() {
  constexpr std::uint64_t kAvx = 0x6, kAvx512 = 0xe6, kAmx = 0x60000;  // bits of XCR0
  const std::uint64_t saved = saved_states();
  const Leaf basic = cpuid(1), extended = cpuid(7), more = cpuid(7, 1);
  struct Feature {
    std::string_view name;
    unsigned word;
    int bit;
    std::uint64_t state;
  };
  const Feature features[] = {
      {"fma", basic.ecx, 12, kAvx},
      {"f16c", basic.ecx, 29, kAvx},
      {"avx2", extended.ebx, 5, kAvx},
      {"avx512f", extended.ebx, 16, kAvx512},
      {"avx512dq", extended.ebx, 17, kAvx512},
      {"avx512bw", extended.ebx, 30, kAvx512},
      {"avx512vl", extended.ebx, 31, kAvx512},
      {"avx512vnni", extended.ecx, 11, kAvx512},
      {"avx512bf16", more.eax, 5, kAvx512},
      {"amx_bf16", extended.edx, 22, kAmx},
      {"amx_tile", extended.edx, 24, kAmx},
      {"amx_int8", extended.edx, 25, kAmx},
  };
  std::vector<std::string_view> found;
  for (const Feature& feature : features) {
    const bool usable =
        (saved & feature.state) == feature.state && (feature.state != kAmx || allow_tiles().has_value());
    if (usable && ((feature.word >> feature.bit) & 1) != 0) found.push_back(feature.name);
  }
  found.push_back("l2_1m");  // what is right for small caches is right for larger ones
  return found;
}

namespace {
// Of L2, as the CPU describes it.
bool has_small_caches() {
  constexpr unsigned kKinds = 0x1f, kMost = 1 << 20;
  for (unsigned part = 0; part < 8; ++part) {
    const Leaf cache = cpuid(4, part);
    if ((cache.eax & kKinds) == 0) break;
    if (((cache.eax >> 5) & 7) != 2) continue;
    const unsigned ways = (cache.ebx >> 22) + 1, partitions = ((cache.ebx >> 12) & 0x3ff) + 1,
                   line = (cache.ebx & 0xfff) + 1, sets = cache.ecx + 1;
    return ways * partitions * line * sets <= kMost;
  }
  return false;
}
}  // namespace

// Intel's CPUs were measured to take two cycles for a dot2 of bf16, and half a cycle for an fma of f32.
std::vector<std::string_view> slow_host_features() {
  constexpr unsigned kGenu = 0x756e6547;  // of GenuineIntel
  std::vector<std::string_view> slow;
  if (cpuid(0).ebx == kGenu) slow.push_back("avx512bf16");
  if (!has_small_caches()) slow.push_back("l2_1m");
  return slow;
}

std::string_view host_architecture() { return "x86_64"; }

// Vendor, family and model, and every word of features: without what differs between the cores of one machine.
std::string host_identity() {
  const Leaf vendor = cpuid(0), basic = cpuid(1), extended = cpuid(7), amd = cpuid(0x80000001),
             more = cpuid(7, 1);
  std::string identity = "x86_64";
  for (unsigned word :
       {vendor.ebx, vendor.ecx, vendor.edx, basic.eax, basic.ecx, basic.edx, extended.ebx, extended.ecx,
        extended.edx, more.eax, more.edx, amd.ecx, amd.edx, static_cast<unsigned>(saved_states())}) {
    identity += " " + std::to_string(word);
  }
  return identity;
}

#elif defined(__aarch64__)

std::vector<std::string_view> slow_host_features() { return {}; }

std::string_view host_architecture() { return "aarch64"; }

std::string host_identity() {
  std::string identity = "aarch64";
#if defined(__linux__)
  unsigned long id = 0;
  if ((::getauxval(AT_HWCAP) & HWCAP_CPUID) != 0) __asm__("mrs %0, MIDR_EL1" : "=r"(id));
  for (unsigned long word : {id, ::getauxval(AT_HWCAP), ::getauxval(AT_HWCAP2)})
    identity += " " + std::to_string(word);
#endif
  return identity;
}

std::vector<std::string_view> host_features() {
  std::vector<std::string_view> found = {"neon"};  // part of the base architecture
#if defined(__linux__)
  const unsigned long second = ::getauxval(AT_HWCAP2);
  if ((second & HWCAP2_BF16) != 0) found.push_back("bf16");
  if ((second & HWCAP2_I8MM) != 0) found.push_back("i8mm");
#endif
  return found;
}

#else

std::vector<std::string_view> host_features() { return {}; }
std::vector<std::string_view> slow_host_features() { return {}; }
std::string_view host_architecture() { return "unknown"; }
std::string host_identity() { return "unknown"; }

#endif

}  // namespace xyntra
