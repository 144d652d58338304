// Tests of IDX files: types, byte order, gzip, damaged and lying files.
#include "nn/data/idx.h"

#include <zlib.h>

#include "tests/io/files.h"

namespace weft {
namespace {

std::string gzip(const std::string& bytes) {
  std::string out(compressBound(bytes.size()) + 64, '\0');
  z_stream zlib{};
  deflateInit2(&zlib, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  zlib.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));
  zlib.avail_in = static_cast<unsigned>(bytes.size());
  zlib.next_out = reinterpret_cast<unsigned char*>(out.data());
  zlib.avail_out = static_cast<unsigned>(out.size());
  deflate(&zlib, Z_FINISH);
  out.resize(zlib.total_out);
  deflateEnd(&zlib);
  return out;
}

std::string idx(int type, const std::vector<uint32_t>& sizes, const std::string& data) {
  std::string text = {0, 0, static_cast<char>(type), static_cast<char>(sizes.size())};
  for (uint32_t size : sizes)
    for (int shift : {24, 16, 8, 0}) text += static_cast<char>(size >> shift & 0xFF);
  return text + data;
}

class Idx : public testing::Test {
 protected:
  Tensor read(const std::string& bytes) { return data::read_idx(write_file(path, bytes)); }
  // What follows "read_idx: 'path'".
  std::string error(const std::string& bytes) {
    const std::string text = error_of([&] { read(bytes); });
    const std::string begin = "read_idx: '" + path + "'";
    return text.rfind(begin, 0) == 0 ? text.substr(begin.size()) : text;
  }
  TemporaryFolder folder;
  std::string path = folder / "a.idx";
};

TEST_F(Idx, ReadsEveryTypePlainAndCompressed) {
  const auto check = [&](const std::string& file, DType dtype, const std::string& little_endian) {
    for (const std::string& bytes : {file, gzip(file)}) {
      const Tensor x = read(bytes);
      EXPECT_EQ(x.dtype(), dtype);
      EXPECT_TRUE(x.sizes() == (std::vector<int64_t>{2, 1}));
      EXPECT_EQ(raw_bytes(x), little_endian);
    }
  };
  check(idx(0x08, {2, 1}, "ab"), kUInt8, "ab");
  check(idx(0x09, {2, 1}, "ab"), kInt8, "ab");
  check(idx(0x0B, {2, 1}, "abcd"), kInt16, "badc");
  check(idx(0x0C, {2, 1}, "abcdefgh"), kInt32, "dcbahgfe");
  check(idx(0x0D, {2, 1}, "abcdefgh"), kFloat32, "dcbahgfe");
  check(idx(0x0E, {2, 1}, "abcdefghijklmnop"), kFloat64, "hgfedcbaponmlkji");
}

TEST_F(Idx, ReadsWhatIsLargerThanItsBuffer) {
  std::string data(500'000, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * i % 251);
  for (const std::string& bytes : {idx(0x08, {500, 1000}, data), gzip(idx(0x08, {500, 1000}, data))})
    EXPECT_EQ(raw_bytes(read(bytes)), data);
}

TEST_F(Idx, ADamagedFileIsNamedWithWhatIsWrong) {
  EXPECT_EQ(error(""), " is no IDX file: it does not begin with two zero bytes, a type and a rank");
  EXPECT_EQ(error("PNG!"), " is no IDX file: it does not begin with two zero bytes, a type and a rank");
  EXPECT_EQ(
      error(idx(0x0A, {1}, "a")),
      " has the type 10; known are 8 (uint8), 9 (int8), 11 (int16), 12 (int32), 13 (float32), 14 (float64)");
  EXPECT_EQ(error(idx(0x08, {1, 2}, "").substr(0, 10)), " ends within the sizes of its 2 dimensions");
  EXPECT_EQ(error(idx(0x0C, {2}, "abc")), " is said to hold [2] int32, which takes 8 bytes, but has 3");
  EXPECT_EQ(error(idx(0x08, {2}, "abc")), " holds more bytes than its sizes [2] take");
  EXPECT_EQ(error(idx(0x08, {0xFFFFFFFF, 0xFFFFFFFF}, "")),
            " is said to hold [4294967295, 4294967295] uint8, more than a file of its size can");
  EXPECT_EQ(error(gzip(idx(0x08, {0xFFFFFFFF}, "a"))),
            " is said to hold [4294967295] uint8, more than a file of its size can");
  EXPECT_EQ(error(idx(0x08, std::vector<uint32_t>(100, 1), "a")), " has 100 dimensions; at most 64 are read");
  const std::string good = gzip(idx(0x08, {4}, "abcd"));
  EXPECT_EQ(error(good.substr(0, good.size() - 12)), " is cut short: its compressed data does not end");
  std::string bad = good;
  bad[bad.size() - 6] ^= 1;  // the checksum
  EXPECT_NE(error(bad).find(" is damaged: zlib says incorrect data check near byte "), std::string::npos)
      << error(bad);
}

TEST_F(Idx, EveryCutIsAnError) {
  for (const std::string& good : {idx(0x0B, {2, 2}, "abcdefgh"), gzip(idx(0x0B, {2, 2}, "abcdefgh"))})
    for (size_t cut = 0; cut < good.size(); ++cut) EXPECT_NE(error(good.substr(0, cut)), "no error") << cut;
}

}  // namespace
}  // namespace weft
