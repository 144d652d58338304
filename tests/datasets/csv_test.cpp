// Tests of the CSV reader: what is read, and the exact text of each complaint.
#include "nn/data/csv.h"

#include <cmath>

#include "tests/io/files.h"

namespace weft {
namespace {

class Csv : public testing::Test {
 protected:
  Tensor read(const std::string& text, const data::CsvOptions& options = {}) {
    write_file(path, text);
    return data::read_csv(path, options);
  }
  std::string error(const std::string& text, const data::CsvOptions& options = {}) {
    const std::string full = error_of([&] { read(text, options); });
    const std::string begin = "read_csv: " + path + ":";
    return full.rfind(begin, 0) == 0 ? full.substr(begin.size()) : full;
  }
  static std::vector<float> values(const Tensor& x) {
    return {data_of<float>(x), data_of<float>(x) + int_numel(x)};
  }

  TemporaryFolder folder;
  std::string path = folder / "t.csv";
};

using Floats = std::vector<float>;
using Shape = std::vector<int64_t>;

TEST_F(Csv, ReadsEveryEndOfALine) {
  for (const char* text : {"1,2\n3,4\n", "1,2\n3,4", "1,2\r\n3,4\r\n", "1,2\r\n3,4", "1,2\n3,4\r",
                           "\xEF\xBB\xBF"
                           "1,2\n3,4\n",
                           "\n\n1,2\n\r\n3,4\n\n\n"}) {
    const Tensor x = read(text);
    EXPECT_TRUE(x.sizes() == (Shape{2, 2})) << text;
    EXPECT_EQ(values(x), (Floats{1, 2, 3, 4})) << text;
    EXPECT_EQ(x.dtype(), kFloat32);
  }
}

TEST_F(Csv, ReadsEveryFormOfANumber) {
  EXPECT_EQ(values(read("-1,+2, 3 ,\t4,\"5\",\" 6 \" ,-0.5,1e3,.25,7.,1234567,12345678,-1234567,1E-2")),
            (Floats{-1, 2, 3, 4, 5, 6, -0.5f, 1000, 0.25f, 7, 1234567, 12345678, -1234567, 0.01f}));
  const Floats special = values(read("inf,-inf,nan,-0,1e-60,-1e-60,1e-400,-1e-400,0.1,16777217,1e-45\n"));
  EXPECT_EQ(special[0], INFINITY);
  EXPECT_EQ(special[1], -INFINITY);
  EXPECT_TRUE(std::isnan(special[2]));
  EXPECT_TRUE(special[3] == 0 && std::signbit(special[3]));
  for (int i : {4, 6}) EXPECT_TRUE(special[i] == 0 && !std::signbit(special[i])) << i;
  for (int i : {5, 7}) EXPECT_TRUE(special[i] == 0 && std::signbit(special[i])) << i;
  EXPECT_EQ(special[8], 0.1f);
  EXPECT_EQ(special[9], 16777216.0f);
  EXPECT_EQ(special[10], 1e-45f);
}

TEST_F(Csv, AHeaderAloneGivesNoRows) {
  EXPECT_TRUE(read("a,\"b,c\",d\n", data::CsvOptions().header(true)).sizes() == (Shape{0, 3}));
  EXPECT_TRUE(read("a,b\r\n1,2", data::CsvOptions().header(true)).sizes() == (Shape{1, 2}));
}

TEST_F(Csv, ReadsFloat64AndOtherDelimiters) {
  const Tensor x = read("0.1;2\n3;1e300\n", data::CsvOptions().delimiter(';').dtype(kFloat64));
  EXPECT_EQ(x.dtype(), kFloat64);
  EXPECT_EQ(data_of<double>(x)[0], 0.1);
  EXPECT_EQ(data_of<double>(x)[3], 1e300);
  EXPECT_EQ(values(read("1\t2\n3\t 4\n", data::CsvOptions().delimiter('\t'))), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(values(read("1 2\n3 4\n", data::CsvOptions().delimiter(' '))), (Floats{1, 2, 3, 4}));
}

TEST_F(Csv, ReadsAVeryLongLine) {
  std::string text = "0";
  for (int i = 1; i < 300'000; ++i) text += ',' + std::to_string(i);
  const Tensor x = read(text);
  ASSERT_TRUE(x.sizes() == (Shape{1, 300'000}));
  EXPECT_EQ(data_of<float>(x)[299'999], 299'999.0f);
}

TEST_F(Csv, AWrongFieldIsNamedWithItsPlaceAndText) {
  EXPECT_EQ(error("1,2\n3,abc\n"), "2:3: 'abc' is not a number");
  EXPECT_EQ(error("1,2\n3, 4x \n"), "2:4: '4x' is not a number");
  EXPECT_EQ(error("1,2\n3,\n"), "2:3: the field is empty; it should hold a number");
  EXPECT_EQ(error("1,2\n,3\n"), "2:1: the field is empty; it should hold a number");
  EXPECT_EQ(error("1,2\n3,\"4\n"), "2:3: '\"4' is not a number");
  EXPECT_EQ(error("1,2\n3,\"4,5\"\n"), "2:3: '\"4,5\"' is not a number");  // a comma is no decimal point
  EXPECT_EQ(error("1,2\n3,4 5\n"), "2:3: '4 5' is not a number");
  EXPECT_EQ(error("1,2\n3,+-4\n"), "2:3: '+-4' is not a number");
  EXPECT_EQ(error("1,2\n3,0x10\n"), "2:3: '0x10' is not a number");
  EXPECT_EQ(error(std::string("1,2\n3,4\0\n", 9)), "2:3: '4\\x00' is not a number");
  EXPECT_EQ(error("1,2\n3,4\r5\n"), "2:3: '4\\x0d5' is not a number");
  EXPECT_EQ(error("x,y\n1,2\n"),
            "1:1: 'x' is not a number; if the first line names the columns, set CsvOptions().header(true)");
  EXPECT_EQ(error("1,2\n3," + std::string(1000, 'x')), "2:3: '" + std::string(60, 'x') + "' is not a number");
}

TEST_F(Csv, ANumberBeyondTheDTypeIsNamed) {
  EXPECT_EQ(error("1\n1e39\n"), "2:1: '1e39' does not fit float32, whose largest number is 3.40282e+38");
  EXPECT_EQ(error("1\n-1e999\n"), "2:1: '-1e999' does not fit float32, whose largest number is 3.40282e+38");
  EXPECT_EQ(error("1e309\n", data::CsvOptions().dtype(kFloat64)),
            "1:1: '1e309' does not fit float64, whose largest number is 1.79769e+308");
}

TEST_F(Csv, ALineOfAnotherLengthIsNamedWithItsEndAndText) {
  EXPECT_EQ(error("1,2,3\n4,5\n6,7,8\n"), "2:4: the line has 2 fields, but the first line has 3: '4,5'");
  EXPECT_EQ(error("1,2,3\n4\n"), "2:2: the line has 1 field, but the first line has 3: '4'");
  EXPECT_EQ(error("1,2\r\n3,4,5\r\n"), "2:6: the line has 3 fields, but the first line has 2: '3,4,5'");
  EXPECT_EQ(error("1,2,3\n4,5"), "2:4: the line has 2 fields, but the first line has 3: '4,5'");
  EXPECT_EQ(error("a,b,c,d,e,f\n1\n", data::CsvOptions().header(true)),
            "2:2: the line has 1 field, but the first line has 6: '1'");
}

TEST_F(Csv, ManyEmptyLinesAfterALongOneTakeNoMemory) {
  std::string text = "1";
  for (int i = 0; i < 100'000; ++i) text += ",1";
  text += std::string(3'000'000, '\n');  // 3 million rows of 100,001 columns would be 1.2 TB
  EXPECT_TRUE(read(text).sizes() == (Shape{1, 100'001}));
}

TEST_F(Csv, FilesThatAreNoTableAreNamed) {
  EXPECT_EQ(error(""), "read_csv: '" + path + "' is empty; a table has at least one line");
  EXPECT_EQ(error("\n\r\n"), "read_csv: '" + path + "' is empty; a table has at least one line");
  EXPECT_EQ(error_of([&] { data::read_csv(folder / "no.csv"); }),
            "read_csv: cannot open '" + (folder / "no.csv") + "': No such file or directory (errno 2)");
  EXPECT_EQ(
      error("1", data::CsvOptions().dtype(kInt64)),
      "read_csv: the dtype is int64; tables are read as float32 or float64, and the tensor's to() converts");
  EXPECT_EQ(error("1", data::CsvOptions().delimiter('e')),
            "read_csv: the delimiter 'e' may be a part of a field");
}

TEST_F(Csv, ReadsTheBundledDigits) {
  const Tensor x = data::read_csv(WEFT_SOURCE_DIR "/tests/data/digits.csv");
  ASSERT_TRUE(x.sizes() == (Shape{1797, 65}));
  double sum = 0;
  for (float value : values(x)) sum += value;
  EXPECT_EQ(sum, 569'788.0);  // awk's sum of the same file
}

}  // namespace
}  // namespace weft
