// Tensors in files: 8 bytes with the header's length, a JSON header, the bytes of the tensors one
// after another.  Source: the safetensors format description, https://github.com/huggingface/
// safetensors#format.
//
// A file is believed only after its header fits its size to the byte: no length that it states is
// allocated or read before that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"
#include "train/files.h"

namespace olm2 {

// A tensor somebody else owns, to be written.
struct TensorView {
  std::string name;
  ValueType type;
  std::span<const std::byte> bytes;
};
// Memory somebody else owns, to be read into.
struct TensorTarget {
  std::string name;
  ValueType type;
  std::span<std::byte> bytes;
};

using Metadata = std::map<std::string, std::string>;

// Size the file will have.
int64_t safetensors_bytes(std::span<const TensorView> tensors, const Metadata& metadata = {});

// Writes the tensors in the order given, straight from their memory.  Equal arguments give equal
// bytes.  Throws Error (train/files.h).
void write_safetensors(const std::filesystem::path& file, std::span<const TensorView> tensors,
                       const Metadata& metadata = {}, WriteFaults* faults = nullptr);

// A tensor as the header describes it.
struct StoredTensor {
  std::string name;
  std::string dtype_name;           // "F32", "I64", ...
  std::optional<DType> dtype = {};  // Empty: a type we know but do not compute with.
  Shape shape;
  int64_t begin = 0;  // Bytes from the end of the header.
  int64_t end = 0;
};

// An open file whose header has been checked.
class SafetensorsFile {
 public:
  // Throws Error: too short, longer or shorter than its header says, no JSON, a tensor twice,
  // offsets that overlap, leave gaps or do not fit shape and dtype, or not a safetensors file at
  // all.
  explicit SafetensorsFile(std::filesystem::path file);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::span<const StoredTensor> tensors() const { return tensors_; }  // In the order of bytes.
  const StoredTensor* find(std::string_view name) const;              // Null: none.
  const Metadata& metadata() const { return metadata_; }

  // Reads the tensor called `stored_name` into the target.  Throws Error if it is missing or has
  // another dtype or shape.
  void read(std::string_view stored_name, const TensorTarget& target) const;

 private:
  [[noreturn]] void refuse(const std::string& reason) const;
  void read_at(int64_t offset, std::span<std::byte> bytes) const;
  void open();
  std::string read_header();
  void parse_header(const std::string& text);
  void check_layout();

  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t file_bytes_ = 0;
  int64_t data_begin_ = 0;  // Offset of the first tensor in the file.
  std::vector<StoredTensor> tensors_;
  Metadata metadata_;
};

}  // namespace olm2
