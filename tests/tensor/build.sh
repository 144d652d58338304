#!/bin/sh
# Builds the vector tests into ${1:-/tmp/vec_tests}: the kernels once per instruction set, the tests for any x86-64.
set -e
out=${1:-/tmp/vec_tests}
mkdir -p "$out"
cd "$(dirname "$0")/../.."
flags="-std=c++20 -O2 -Wall -Wextra -Werror -ffp-contract=off -fno-math-errno -I."
kernels() {
  isa=$1 table=$2
  shift 2
  g++ $flags -DWEFT_ISA_NAMESPACE=$isa -DWEFT_TEST_TABLE=$table "$@" -c tests/tensor/vec_kernels.cpp -o "$out/$isa.o"
}
kernels isa_sse4 kSse4 -msse4.2 &
kernels isa_avx2 kAvx2 -mavx2 -mfma -mf16c
kernels isa_avx512 kAvx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd -mfma -mf16c
wait
for test in vec_math_test vec_test; do
  [ -f tests/tensor/$test.cpp ] && g++ $flags -c tests/tensor/$test.cpp -o "$out/$test.o"
done
g++ "$out"/*.o -lgtest -lgtest_main -lpthread -o "$out/vec_tests"
