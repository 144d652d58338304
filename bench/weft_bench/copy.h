// A parallel plain-store copy of as many bytes as a kernel moves: what the memory of this machine gives at this moment.
// Needs tensor. weft_bench times it next to every case whose bytes are known.
#pragma once

namespace weft::bench {

// Microseconds to read bytes / 2 and write as many, into memory that has been written before; the median of three copies.
double copy_us(double bytes);

}  // namespace weft::bench
