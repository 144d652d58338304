// Tables of numbers in text files: comma-separated values to a tensor.
// Needs tensor; nn/io/file.h in the source.
#pragma once

#include <string>

#include "tensor/tensor.h"

namespace weft::data {

// CsvOptions().header(true).delimiter(';')
class CsvOptions {
 public:
  // The first line holds the columns' names and is skipped.
  CsvOptions& header(bool value) { return header_ = value, *this; }
  CsvOptions& delimiter(char value) { return delimiter_ = value, *this; }
  // float32 (the default) or float64.
  CsvOptions& dtype(DType value) { return dtype_ = value, *this; }

  bool header() const { return header_; }
  char delimiter() const { return delimiter_; }
  DType dtype() const { return dtype_; }

 private:
  bool header_ = false;
  char delimiter_ = ',';
  DType dtype_ = kFloat32;
};

// A table with one number in each field -> [rows, columns].
// Fields may stand in double quotes and between spaces; "nan" and "inf" are numbers. Lines end with LF or CRLF, the
// last one perhaps with neither; empty lines and a byte order mark are skipped.
// Errors, with file:line:column: a field that is no number or does not fit the dtype (too small ones round to zero), a
// line with another number of fields than the first; also an empty file.
Tensor read_csv(const std::string& path, const CsvOptions& options = {});

}  // namespace weft::data
