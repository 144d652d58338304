// The file of one cache entry: its bytes and a footer that tells whether they are what was stored.
// Needs cache_key. Place: under disk_cache, which decides where files lie; Note [Files of the cache] there.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compiler/codegen/cache_key.h"

namespace weft::compiler {

// Part of the directory's name: files of another format are never read.
inline constexpr uint32_t kCacheFormat = 1;
inline constexpr size_t kCacheFooterBytes = 64;

// What follows the bytes of an entry in its file.
std::string cache_footer(const ContentHash& key, std::string_view bytes);

enum class EntryState { Intact, Missing, Corrupt };

// Reads the file of an entry; `bytes` gets what was stored, without the footer. A file that others can write or own is
// corrupt: what it says of itself proves nothing. `inode` tells which file was read.
EntryState read_entry(const std::string& path, const ContentHash& key, std::string& bytes, uint64_t& inode);

// Writes the file of an entry anew, with mode 0600. Returns 0, or the errno of what failed; then there is no file.
int write_entry(const std::string& path, const ContentHash& key, std::string_view bytes);

}  // namespace weft::compiler
