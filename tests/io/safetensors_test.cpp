// Tests of safetensors: round trips, the layout of what is written, and what malformed files are told.
#include "nn/io/safetensors.h"

#include <sys/stat.h>

#include "tests/io/files.h"

namespace weft {
namespace {

constexpr DType kAllDTypes[] = {kFloat32, kFloat64, kBFloat16, kFloat16, kInt64,
                                kInt32,   kInt16,   kInt8,     kUInt8,   kBool};

std::string file_with(const std::string& header, const std::string& data = "") {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

TEST(Safetensors, EveryDTypeComesBackBitForBit) {
  const TemporaryFolder folder;
  io::NamedTensors tensors;
  for (DType dtype : kAllDTypes) {
    tensors.emplace_back(std::string("full ") + name_of(dtype), counting_tensor({3, 5}, dtype));
    tensors.emplace_back(std::string("scalar ") + name_of(dtype), counting_tensor({}, dtype, 9));
    tensors.emplace_back(std::string("empty ") + name_of(dtype), counting_tensor({2, 0, 3}, dtype));
  }
  io::save_safetensors(folder / "a.safetensors", tensors, {{"format", "pt"}, {"é\n\"", ""}});
  const io::Safetensors loaded = io::load_safetensors(folder / "a.safetensors");
  EXPECT_EQ(loaded.metadata, (io::Metadata{{"format", "pt"}, {"é\n\"", ""}}));
  ASSERT_EQ(loaded.tensors.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = loaded.tensors[i];
    EXPECT_EQ(name, tensors[i].first) << "the order is the caller's";
    EXPECT_EQ(tensor.dtype(), tensors[i].second.dtype()) << name;
    EXPECT_TRUE(tensor.sizes() == tensors[i].second.sizes()) << name;
    EXPECT_EQ(raw_bytes(tensor), raw_bytes(tensors[i].second)) << name;
  }
  EXPECT_EQ(folder.num_files(), 1u) << "no temporary file is left";
}

TEST(Safetensors, WritesAlignedDataAndTheSameBytesEachTime) {
  const TemporaryFolder folder;
  const io::NamedTensors tensors = {{"b", counting_tensor({3}, kBool)},
                                    {"d", counting_tensor({1}, kFloat64)},
                                    {"h", counting_tensor({1}, kFloat16)},
                                    {"f", counting_tensor({1}, kFloat32)}};
  io::save_safetensors(folder / "a", tensors, {{"z", "1"}, {"a", "2"}});
  io::save_safetensors(folder / "b", tensors, {{"z", "1"}, {"a", "2"}});
  const std::string text = read_file(folder / "a");
  EXPECT_EQ(text, read_file(folder / "b"));
  uint64_t length;
  std::memcpy(&length, text.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(
      text.substr(8, text.find_last_of('}') - 7),
      R"({"__metadata__":{"a":"2","z":"1"},"b":{"dtype":"BOOL","shape":[3],"data_offsets":[14,17]},)"
      R"("d":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},"h":{"dtype":"F16","shape":[1],"data_offsets":[12,14]},)"
      R"("f":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})");
}

TEST(Safetensors, AStridedTensorIsStoredAsItReads) {
  const TemporaryFolder folder;
  const Tensor x = counting_tensor({2, 3}, kInt16);
  Layout<Sym> turned = x->layout;
  std::swap(turned.sizes[0], turned.sizes[1]);
  std::swap(turned.strides[0], turned.strides[1]);
  io::save_safetensors(folder / "a", {{"t", make_view(x, turned)}});
  const Tensor y = io::load_safetensors(folder / "a").at("t");
  ASSERT_TRUE(y.sizes() == (std::vector<int64_t>{3, 2}));
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j) EXPECT_EQ(data_of<int16_t>(y)[j * 2 + i], data_of<int16_t>(x)[i * 3 + j]);
}

TEST(Safetensors, AnOpenFileGivesSingleTensors) {
  const TemporaryFolder folder;
  io::save_safetensors(folder / "a",
                       {{"x", counting_tensor({4}, kFloat32)}, {"y", counting_tensor({2}, kInt8)}});
  io::SafetensorsFile file(folder / "a");
  io::SafetensorsFile moved = std::move(file);
  EXPECT_TRUE(moved.contains("y"));
  EXPECT_FALSE(moved.contains("z"));
  EXPECT_EQ(raw_bytes(moved.load("y")), raw_bytes(counting_tensor({2}, kInt8)));
  EXPECT_EQ(error_of([&] { moved.load("z"); }),
            "load_safetensors: '" + (folder / "a") + "' has no tensor 'z'; it has 2 others");
}

TEST(Safetensors, TheReferenceResultsOfTheTestsAreRead) {
  const io::SafetensorsFile file(WEFT_SOURCE_DIR "/tests/data/golden/training.safetensors");
  EXPECT_GT(file.entries().size(), 100u);
  for (const io::TensorEntry& entry : file.entries()) EXPECT_TRUE(file.load(entry.name).defined());
}

struct Malformed {
  const char* what;
  std::string bytes;
  std::string error;  // after "load_safetensors: 'path': " or, with a leading '*', a part of the text
};

std::vector<Malformed> malformed_files() {
  const std::string one = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  const auto with_length = [](uint64_t length, const std::string& rest) {
    return std::string(reinterpret_cast<const char*>(&length), 8) + rest;
  };
  std::vector<Malformed> files = {
      {"empty", "", "*has 0 bytes; a safetensors file begins with the 8 bytes of its header's length"},
      {"shorter than the length", "1234567", "*has 7 bytes; a safetensors file"},
      {"length beyond the file", with_length(100, "{}"),
       "the header is said to have 100 bytes, but the file has 2 after the length; it is cut short, or no "
       "safetensors file"},
      {"largest length", with_length(UINT64_MAX, "{}"), "*said to have 18446744073709551615 bytes"},
      {"length that overflows with the 8", with_length(UINT64_MAX - 7, "{}"),
       "*said to have 18446744073709551608 bytes"},
      {"no header", file_with(""), "the header does not begin with '{'; it is no safetensors file"},
      {"leading space", file_with(" {}"), "the header does not begin with '{'; it is no safetensors file"},
      {"not JSON", file_with("{\"a\":"), "*the header is no valid JSON at byte"},
      {"text after the object", file_with("{}{}"), "*the header is no valid JSON at byte"},
      {"not UTF-8", file_with("{\"\xff\xfe\":{" + one + "}}", "1234"),
       "*the header is no valid JSON at byte"},
      {"nesting bomb of arrays", file_with("{\"a\":" + std::string(5'000'000, '[')),
       "tensor 'a' is an array, not an object"},
      {"nesting bomb of objects", file_with([] {
         std::string text = "{";
         for (int i = 0; i < 100'000; ++i) text += "\"a\":{";
         return text;
       }()),
       "tensor 'a' has the field 'a'; known are dtype, shape and data_offsets"},
      {"nested shape", file_with(R"({"a":{"shape":[[[1]]]}})"),
       "tensor 'a' has an array in its shape, where only sizes may be"},
      {"tensor is a number", file_with(R"({"a":3})"), "tensor 'a' is the number 3, not an object"},
      {"tensor is null", file_with(R"({"a":null})"), "tensor 'a' is null, not an object"},
      {"no dtype", file_with(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", "1234"),
       "tensor 'a' has no dtype"},
      {"no shape", file_with(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", "1234"),
       "tensor 'a' has no shape"},
      {"no offsets", file_with(R"({"a":{"dtype":"F32","shape":[1]}})", "1234"),
       "tensor 'a' has no data_offsets"},
      {"one offset", file_with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "1234"),
       "tensor 'a' has fewer than two data_offsets"},
      {"three offsets", file_with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", "1234"),
       "tensor 'a' has more than two data_offsets"},
      {"unknown dtype", file_with(R"({"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", "1"),
       "tensor 'a' has the dtype 'F8_E4M3'; known are F64, F32, BF16, F16, I64, I32, I16, I8, U8, BOOL"},
      {"dtype twice", file_with(R"({"a":{"dtype":"F32","dtype":"F32"}})"),
       "tensor 'a' gives its dtype twice"},
      {"dtype is a number", file_with(R"({"a":{"dtype":5}})"), "tensor 'a' has the number 5 as its dtype"},
      {"shape twice", file_with(R"({"a":{"shape":[1],"shape":[1]}})"), "tensor 'a' gives its shape twice"},
      {"offsets twice", file_with(R"({"a":{"data_offsets":[0,1],"data_offsets":[0,1]}})"),
       "tensor 'a' gives its data_offsets twice"},
      {"unknown field", file_with(R"({"a":{"order":"F"}})"),
       "tensor 'a' has the field 'order'; known are dtype, shape and data_offsets"},
      {"negative size", file_with(R"({"a":{"shape":[-1]}})"),
       "tensor 'a' has the negative number -1 in its shape, where only sizes may be"},
      {"fractional size", file_with(R"({"a":{"shape":[1.5]}})"),
       "tensor 'a' has the number 1.5 in its shape, where only sizes may be"},
      {"size beyond 63 bits", file_with(R"({"a":{"shape":[9223372036854775808]}})"),
       "tensor 'a' has a size of 9223372036854775808, which does not fit 63 bits"},
      {"size beyond 64 bits", file_with(R"({"a":{"shape":[18446744073709551616]}})"),
       "tensor 'a' has the number 18446744073709551616 in its shape, where only sizes may be"},
      {"too many dimensions",
       file_with("{\"a\":{\"shape\":[1" +
                 [] {
                   std::string text;
                   for (int i = 0; i < 1000; ++i) text += ",1";
                   return text;
                 }() +
                 "]}}"),
       "tensor 'a' has more than 64 dimensions"},
      {"product beyond 63 bits",
       file_with(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})"),
       "tensor 'a' has the shape [4294967296, 4294967296], whose size in bytes does not fit 63 bits"},
      {"product that wraps to the right size",
       file_with(R"({"a":{"dtype":"U8","shape":[4294967297,4294967297],"data_offsets":[0,1]}})", "1"),
       "tensor 'a' has the shape [4294967297, 4294967297], whose size in bytes does not fit 63 bits"},
      {"huge sizes hidden by a zero",
       file_with(R"({"a":{"dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})"),
       "tensor 'a' has the shape [0, 4294967296, 4294967296], whose size in bytes does not fit 63 bits"},
      {"a terabyte claimed",
       file_with(R"({"a":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]}})"),
       "tensor 'a' has data_offsets [0, 1099511627776], but the file has 0 bytes of data"},
      {"cut data", file_with("{\"a\":{" + one + "}}", "12"),
       "tensor 'a' has data_offsets [0, 4], but the file has 2 bytes of data"},
      {"offsets backwards", file_with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "1234"),
       "tensor 'a' has data_offsets [4, 0], but the file has 4 bytes of data"},
      {"wrong byte count", file_with(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234"),
       "tensor 'a' is [2] float32, which takes 8 bytes, but its data_offsets [0, 4] span 4"},
      {"overlap",
       file_with("{\"a\":{" + one + "},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}",
                 "123456"),
       "tensor 'b' begins at byte 2 of the data, inside tensor 'a' [0, 4]"},
      {"the same bytes twice", file_with("{\"a\":{" + one + "},\"b\":{" + one + "}}", "1234"),
       "tensor 'b' begins at byte 0 of the data, inside tensor 'a' [0, 4]"},
      {"gap", file_with(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})", "123"),
       "bytes 0 to 2 of the data, before tensor 'a', belong to no tensor"},
      {"bytes left over", file_with("{\"a\":{" + one + "}}", "123456"),
       "the last 2 of 6 bytes of data belong to no tensor"},
      {"name twice",
       file_with("{\"a\":{" + one + "},\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
                 "12345678"),
       "tensor 'a' occurs twice"},
      {"metadata twice", file_with(R"({"__metadata__":{},"__metadata__":{}})"), "__metadata__ occurs twice"},
      {"metadata key twice", file_with(R"({"__metadata__":{"k":"1","k":"2"}})"),
       "__metadata__ holds the key 'k' twice"},
      {"metadata holds a number", file_with(R"({"__metadata__":{"k":1}})"),
       "__metadata__ holds the number 1 under 'k', where only text may be"},
      {"metadata is text", file_with(R"({"__metadata__":"k"})"),
       "__metadata__ is the text 'k', not an object"},
      {"a bool that is neither",
       file_with(R"({"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})", std::string("\0\1\2", 3)),
       "tensor 'a' is bool, but byte 2 of it is neither 0 nor 1"},
      {"control characters in a name", file_with("{\"\\u001b[2J\":3}"),
       "tensor '\\x1b[2J' is the number 3, not an object"},
  };
  return files;
}

TEST(Safetensors, AMalformedFileIsAnErrorThatNamesTensorAndNumbers) {
  const TemporaryFolder folder;
  const std::string path = folder / "bad.safetensors";
  for (const Malformed& file : malformed_files()) {
    write_file(path, file.bytes);
    const std::string text = error_of([&] { io::load_safetensors(path); });
    EXPECT_NE(text.find("'" + path + "'"), std::string::npos) << file.what << ": " << text;
    if (file.error[0] == '*')
      EXPECT_NE(text.find(file.error.substr(1)), std::string::npos) << file.what << ": " << text;
    else EXPECT_EQ(text, "load_safetensors: '" + path + "': " + file.error) << file.what;
  }
}

TEST(Safetensors, EveryCutAndEveryFlippedByteIsAnErrorOrALoad) {
  const TemporaryFolder folder;
  io::save_safetensors(folder / "a",
                       {{"x", counting_tensor({2, 3}, kFloat32)}, {"y", counting_tensor({3}, kBool)}});
  const std::string good = read_file(folder / "a");
  const std::string path = folder / "b";
  for (size_t cut = 0; cut < good.size(); ++cut) {
    write_file(path, good.substr(0, cut));
    EXPECT_NE(error_of([&] { io::load_safetensors(path); }).find("load_safetensors: '" + path),
              std::string::npos)
        << cut;
  }
  for (size_t i = 0; i < good.size(); ++i)
    for (int flip : {0x01, 0x20, 0x80}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      write_file(path, bad);
      EXPECT_EQ(error_of([&] { io::load_safetensors(path); }).find("INTERNAL"), std::string::npos) << i;
    }
}

TEST(Safetensors, SavingRefusesWhatCouldNotBeReadAgain) {
  const TemporaryFolder folder;
  const std::string path = folder / "a";
  const Tensor x = counting_tensor({1}, kFloat32);
  EXPECT_EQ(error_of([&] {
              io::save_safetensors(path, {{"x", x}, {"x", x}});
            }),
            "save_safetensors: two tensors are named 'x'");
  EXPECT_EQ(error_of([&] {
              io::save_safetensors(path, {{"x", Tensor()}});
            }),
            "save_safetensors: tensor 'x' is undefined");
  EXPECT_EQ(error_of([&] {
              io::save_safetensors(path, {{"__metadata__", x}});
            }),
            "save_safetensors: '__metadata__' is the format's own name and cannot be a tensor's");
  EXPECT_EQ(
      error_of([&] {
        io::save_safetensors(path, {{"\xff", x}});
      }),
      "save_safetensors: '" + path + "': a tensor's name or the metadata holds text that is not valid UTF-8");
  EXPECT_EQ(
      error_of([&] {
        io::save_safetensors(path, {{"x", x}}, {{"k", "\xff"}});
      }),
      "save_safetensors: '" + path + "': a tensor's name or the metadata holds text that is not valid UTF-8");
  EXPECT_EQ(folder.num_files(), 0u);
}

TEST(Safetensors, ErrorsOfTheDiskNamePathAndReason) {
  const TemporaryFolder folder;
  const Tensor x = counting_tensor({1}, kFloat32);
  EXPECT_EQ(error_of([&] { io::load_safetensors(folder / "no"); }),
            "load_safetensors: cannot open '" + (folder / "no") + "': No such file or directory (errno 2)");
  EXPECT_EQ(error_of([&] { io::load_safetensors(folder.path()); }),
            "load_safetensors: cannot read '" + folder.path() + "': Is a directory (errno 21)");
  EXPECT_EQ(
      error_of([&] {
        io::save_safetensors(folder / "no/a", {{"x", x}});
      }),
      "save_safetensors: cannot write '" + (folder / "no/a") + "': No such file or directory (errno 2)");
  EXPECT_EQ(error_of([&] {
              io::save_safetensors(folder.path(), {{"x", x}});
            }),
            "save_safetensors: cannot write '" + folder.path() + "': Is a directory (errno 21)");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { io::load_safetensors(folder / "pipe"); }),
            "load_safetensors: cannot read '" + (folder / "pipe") + "': it is no regular file");
}

TEST(Safetensors, ReplacingKeepsPermissionsAndFollowsALink) {
  const TemporaryFolder folder;
  write_file(folder / "real", "old");
  ::chmod((folder / "real").c_str(), 0640);
  std::filesystem::create_symlink(folder / "real", folder / "link");
  io::save_safetensors(folder / "link", {{"x", counting_tensor({1}, kFloat32)}});
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_TRUE(io::SafetensorsFile(folder / "real").contains("x"));
  struct stat status;
  ASSERT_EQ(::stat((folder / "real").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

}  // namespace
}  // namespace weft
