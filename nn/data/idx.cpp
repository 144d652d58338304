// IDX: two zero bytes, a type, a rank, big-endian sizes of 32 bits, then big-endian values.
#include "nn/data/idx.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "nn/io/file.h"
#include "nn/io/tensor_bytes.h"
#include "tensor/dispatch.h"

namespace weft::data {

namespace {

const std::string kReadIdx = "read_idx";

// The bytes of a file in order, inflated if they are compressed.
class ByteStream {
 public:
  explicit ByteStream(const std::string& path) : file_(kReadIdx, path) {
    unsigned char magic[2] = {};
    if (file_.size() >= 2) file_.read(0, magic, 2);
    if (magic[0] != 0x1F || magic[1] != 0x8B) return;
    compressed_ = true;
    WEFT_CHECK(inflateInit2(&zlib_, 16 + MAX_WBITS) == Z_OK, kReadIdx, ": zlib cannot start: ", message());
  }
  ~ByteStream() {
    if (compressed_) inflateEnd(&zlib_);
  }
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  // No file of this size can hold more: deflate shortens at most 1032 times.
  uint64_t bound() const { return compressed_ ? file_.size() * 1032 : file_.size(); }

  // Fills the buffer as far as the data goes and returns how many bytes that was.
  size_t read(void* buffer, size_t bytes) {
    if (!compressed_) {
      const size_t n = std::min<uint64_t>(bytes, file_.size() - offset_);
      file_.read(offset_, buffer, n);
      offset_ += n;
      return n;
    }
    size_t done = 0;
    while (done < bytes && !ended_) {
      if (zlib_.avail_in == 0) refill();
      const size_t piece = std::min<size_t>(bytes - done, 1u << 30);
      zlib_.next_out = static_cast<unsigned char*>(buffer) + done;
      zlib_.avail_out = static_cast<unsigned>(piece);
      const int status = inflate(&zlib_, Z_NO_FLUSH);
      WEFT_CHECK(status == Z_OK || status == Z_STREAM_END, kReadIdx, ": '", file_.path(),
                 "' is damaged: zlib says ", message(), " near byte ", offset_ - zlib_.avail_in);
      done += piece - zlib_.avail_out;
      ended_ = status == Z_STREAM_END;
    }
    return done;
  }

 private:
  void refill() {
    const size_t n = std::min<uint64_t>(sizeof input_, file_.size() - offset_);
    WEFT_CHECK(n > 0, kReadIdx, ": '", file_.path(), "' is cut short: its compressed data does not end");
    file_.read(offset_, input_, n);
    offset_ += n;
    zlib_.next_in = input_;
    zlib_.avail_in = static_cast<unsigned>(n);
  }
  const char* message() const { return zlib_.msg ? zlib_.msg : "nothing"; }

  io::InputFile file_;
  uint64_t offset_ = 0;
  bool compressed_ = false, ended_ = false;
  z_stream zlib_{};
  unsigned char input_[1 << 16];
};

std::optional<DType> dtype_of_code(int code) {
  switch (code) {
    case 0x08: return kUInt8;
    case 0x09: return kInt8;
    case 0x0B: return kInt16;
    case 0x0C: return kInt32;
    case 0x0D: return kFloat32;
    case 0x0E: return kFloat64;
    default: return {};
  }
}

}  // namespace

Tensor read_idx(const std::string& path) {
  ByteStream stream(path);
  unsigned char magic[4];
  WEFT_CHECK(stream.read(magic, 4) == 4 && magic[0] == 0 && magic[1] == 0, kReadIdx, ": '", path,
             "' is no IDX file: it does not begin with two zero bytes, a type and a rank");
  const std::optional<DType> dtype = dtype_of_code(magic[2]);
  WEFT_CHECK(dtype.has_value(), kReadIdx, ": '", path, "' has the type ", int{magic[2]},
             "; known are 8 (uint8), 9 (int8), 11 (int16), 12 (int32), 13 (float32), 14 (float64)");
  const size_t rank = magic[3];
  WEFT_CHECK(rank <= io::kMaxFileRank, kReadIdx, ": '", path, "' has ", rank, " dimensions; at most ",
             io::kMaxFileRank, " are read");
  std::vector<int64_t> sizes(rank);
  for (int64_t& size : sizes) {
    unsigned char b[4];
    WEFT_CHECK(stream.read(b, 4) == 4, kReadIdx, ": '", path, "' ends within the sizes of its ", rank,
               " dimensions");
    size = int64_t{b[0]} << 24 | int64_t{b[1]} << 16 | int64_t{b[2]} << 8 | int64_t{b[3]};
  }
  const std::optional<uint64_t> bytes = io::checked_bytes(sizes, *dtype);
  WEFT_CHECK(bytes && *bytes <= stream.bound(), kReadIdx, ": '", path, "' is said to hold ",
             io::shape_text(sizes), " ", *dtype, ", more than a file of its size can");
  Tensor result = make_tensor(SymList(sizes), *dtype);
  const size_t got = stream.read(bytes_of(result), *bytes);
  WEFT_CHECK(got == *bytes, kReadIdx, ": '", path, "' is said to hold ", io::shape_text(sizes), " ", *dtype,
             ", which takes ", *bytes, " bytes, but has ", got);
  char extra;
  WEFT_CHECK(stream.read(&extra, 1) == 0, kReadIdx, ": '", path, "' holds more bytes than its sizes ",
             io::shape_text(sizes), " take");
  if (const size_t width = size_of(*dtype); width > 1)
    for (char *p = bytes_of(result), *end = p + *bytes; p != end; p += width) std::reverse(p, p + width);
  return result;
}

}  // namespace weft::data
