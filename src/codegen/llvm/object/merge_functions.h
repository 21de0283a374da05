// Functions that differ in a few integers only are compiled once. The layers of one network are many such: trip counts, strides
// and places in memory are theirs, all else is the same.
//
//   k4_p1: for i < 6 { … w[i * 512] … }          k4_p1_shared(…, numbers): for i < numbers[0] { … w[i * 512] … }
//   k7_p1: for i < 9 { … w[i * 512] … }    ->    k4_p1: k4_p1_shared(…, {6})      k7_p1: k4_p1_shared(…, {9})
//
// Integers that count, compare or address become loads before the first loop; what is computed is the same to the last bit.
// Others have to be equal: divisors inside loops, lanes, and indices of registers, which must be known to be registers.
#pragma once

namespace llvm {
class Function;
class Module;
}  // namespace llvm

namespace xyntra::cpu_code {

void merge_functions(llvm::Module& module);
bool calls_shared(const llvm::Function& function);  // and does nothing else

}  // namespace xyntra::cpu_code
