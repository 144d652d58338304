// The smallest program a user writes: fails to build or run when the package lacks something.
// Needs weft.h only.
#include <weft.h>

#include <iostream>

int main() {
  std::cout << "bf16 with f16 gives " << weft::promote(weft::kBFloat16, weft::kFloat16) << "\n";
  return weft::promote(weft::kBFloat16, weft::kFloat16) == weft::kFloat32 ? 0 : 1;
}
