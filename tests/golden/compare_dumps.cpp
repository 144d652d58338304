// compare_dumps A B: compares two files written by weft_golden --dump bit for bit, NaN equal to NaN.
// Place: the second half of run_twice, which ctest calls for thread counts and instruction sets.
#include <iostream>

#include "tests/support/compare.h"

int main(int argc, char** argv) {
  using namespace weft::tests;
  if (argc != 3) {
    std::cerr << "usage: compare_dumps A.safetensors B.safetensors\n";
    return 2;
  }
  try {
    const NamedTensors a = read_safetensors(argv[1]), b = read_safetensors(argv[2]);
    int equal = 0, different = 0;
    const auto report = [&](const std::string& name, const std::string& text) {
      ++different;
      std::cout << "FAIL " << name << ": " << text << '\n';
    };
    for (const auto& [name, x] : a) {
      const auto other = b.find(name);
      if (other == b.end()) report(name, "is only in the first file");
      else if (const std::string text = difference_of_bits(x, other->second); !text.empty())
        report(name, text);
      else ++equal;
    }
    for (const auto& [name, x] : b)
      if (!a.contains(name)) report(name, "is only in the second file");
    std::cout << equal << " equal, " << different << " different\n";
    return different == 0 && equal > 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "compare_dumps: " << error.what() << '\n';
    return 2;
  }
}
