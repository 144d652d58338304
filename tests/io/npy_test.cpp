// Tests of .npy files: round trips, bytes as NumPy writes them, Fortran's order, malformed headers.
#include "nn/io/npy.h"

#include "tests/io/files.h"

namespace weft {
namespace {

// As numpy.lib.format writes it: version, length of the header, header, data.
std::string npy(const std::string& header, const std::string& data, int version = 1) {
  std::string text = "\x93NUMPY";
  text += {static_cast<char>(version), '\0'};
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) text += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return text + header + data;
}

TEST(Npy, EveryDTypeButBFloat16ComesBack) {
  const TemporaryFolder folder;
  for (DType dtype : {kFloat32, kFloat64, kFloat16, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool})
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{}, {5}, {2, 3}, {2, 0, 4}}) {
      const Tensor x = counting_tensor(sizes, dtype);
      io::save_npy(folder / "a.npy", x);
      const Tensor y = io::load_npy(folder / "a.npy");
      EXPECT_EQ(y.dtype(), dtype);
      EXPECT_TRUE(y.sizes() == x.sizes()) << dtype;
      EXPECT_EQ(raw_bytes(y), raw_bytes(x)) << dtype;
    }
  EXPECT_EQ(error_of([&] { io::save_npy(folder / "b", counting_tensor({1}, kBFloat16)); }),
            "save_npy: NumPy has no bfloat16; convert to float32 first, for '" + (folder / "b") + "'");
}

TEST(Npy, WritesTheBytesThatNumPyWrites) {
  const TemporaryFolder folder;
  io::save_npy(folder / "a.npy", counting_tensor({3}, kUInt8));
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }";
  header.resize(117, ' ');
  EXPECT_EQ(read_file(folder / "a.npy"), npy(header + "\n", "\x01\x08\x0f"));
}

TEST(Npy, FortranOrderIsTurnedToRows) {
  const TemporaryFolder folder;
  // [[1, 2, 3], [4, 5, 6]] by columns.
  for (int version : {1, 2, 3}) {
    write_file(folder / "a.npy", npy("{'descr': '|i1', 'fortran_order': True, 'shape': (2, 3), }  \n",
                                     "\x01\x04\x02\x05\x03\x06", version));
    const Tensor x = io::load_npy(folder / "a.npy");
    EXPECT_TRUE(x.sizes() == (std::vector<int64_t>{2, 3}));
    EXPECT_TRUE(x.is_contiguous());
    EXPECT_EQ(raw_bytes(x), "\x01\x02\x03\x04\x05\x06");
  }
}

TEST(Npy, AMalformedFileIsAnErrorThatSaysWhere) {
  const TemporaryFolder folder;
  const std::string path = folder / "bad.npy";
  const auto error = [&](const std::string& bytes) {
    write_file(path, bytes);
    return error_of([&] { io::load_npy(path); });
  };
  const std::string begin = "load_npy: '" + path + "'";
  EXPECT_EQ(error(""), begin + " does not begin with \"\\x93NUMPY\"; it is no .npy file");
  EXPECT_EQ(error(npy("{}", "", 4)), begin + " has version 4 of the format; 1 to 3 are read");
  EXPECT_EQ(error(npy("{", "")),
            begin +
                ": the header is malformed at character 1: a quoted text is expected (structured "
                "dtypes are not read); it reads '{'");
  EXPECT_EQ(
      error(npy("{'descr': '<f4'}", "")),
      begin +
          ": the header is malformed at character 16: descr, fortran_order or shape is missing; it reads "
          "'{'descr': '<f4'}'");
  EXPECT_EQ(error(npy("{'descr': '>f4', 'fortran_order': False, 'shape': ()}", "1234")),
            begin +
                " holds the dtype '>f4'; known are <f8, <f4, <f2, <i8, <i4, <i2, |i1, |u1, |b1: convert the "
                "array with "
                "astype() before saving it");
  EXPECT_EQ(error(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "1234")),
            begin + " holds [2] float32, which takes 8 bytes, but 4 follow the header");
  EXPECT_EQ(error(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", "1234")),
            begin +
                " holds [4294967296, 4294967296] float32, which takes more than 2^63 bytes, but 4 follow the "
                "header");
  EXPECT_NE(
      error(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", "")).find("a size is expected"),
      std::string::npos);
  EXPECT_EQ(error(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (1,)}", "\x02")),
            begin + " is bool, but byte 0 of it is neither 0 nor 1");
  const std::string good = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "1234");
  for (size_t cut = 0; cut < good.size(); ++cut) EXPECT_EQ(error(good.substr(0, cut)).find(begin), 0u) << cut;
}

}  // namespace
}  // namespace weft
