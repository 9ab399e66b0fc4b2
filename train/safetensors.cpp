#include "train/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <set>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"

namespace olm2 {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kLargestHeader = 100'000'000;  // The limit of the format's own reader.
constexpr int kDeepestHeader = 8;
constexpr std::string_view kMetadataKey = "__metadata__";

struct StoredType {
  std::string_view name;
  int64_t bytes = 0;
  std::optional<DType> dtype;
};
constexpr std::array<StoredType, 15> kStoredTypes = {{{"F32", 4, DType::f32},
                                                      {"F64", 8, DType::f64},
                                                      {"BF16", 2, DType::bf16},
                                                      {"I32", 4, DType::i32},
                                                      {"F16", 2, {}},
                                                      {"I64", 8, {}},
                                                      {"U64", 8, {}},
                                                      {"U32", 4, {}},
                                                      {"I16", 2, {}},
                                                      {"U16", 2, {}},
                                                      {"I8", 1, {}},
                                                      {"U8", 1, {}},
                                                      {"BOOL", 1, {}},
                                                      {"F8_E4M3", 1, {}},
                                                      {"F8_E5M2", 1, {}}}};

std::string_view stored_name(DType dtype) {
  const auto* const found =
      std::ranges::find(kStoredTypes, std::optional(dtype), &StoredType::dtype);
  ensure(found != kStoredTypes.end(), "safetensors: a dtype without a name");
  return found->name;
}

// The length and the header, padded by spaces to a multiple of 8 bytes.
std::string header_of(std::span<const TensorView> tensors, const Metadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(kMetadataKey)] = metadata;
  int64_t begin = 0;
  for (const TensorView& tensor : tensors) {
    const auto bytes = static_cast<int64_t>(tensor.bytes.size());
    ensure(bytes == tensor.type.bytes(), "safetensors: " + tensor.name + " has the wrong size");
    ensure(!header.contains(tensor.name), "safetensors: two tensors named " + tensor.name);
    header[tensor.name] = {{"dtype", stored_name(tensor.type.dtype)},
                           {"shape", tensor.type.shape},
                           {"data_offsets", {begin, begin + bytes}}};
    begin += bytes;
  }
  std::string text = header.dump();
  text.resize(static_cast<size_t>(padded(static_cast<int64_t>(text.size()), 8)), ' ');
  const uint64_t length = text.size();
  std::array<char, kLengthBytes> prefix{};
  std::memcpy(prefix.data(), &length, sizeof length);
  return std::string(prefix.data(), prefix.size()) + text;
}

int64_t data_bytes(std::span<const TensorView> tensors) {
  int64_t bytes = 0;
  for (const TensorView& tensor : tensors) bytes += static_cast<int64_t>(tensor.bytes.size());
  return bytes;
}

// JSON in which no object has the same key twice.
nlohmann::json parse_json_without_duplicates(const std::string& text) {
  std::vector<std::set<std::string>> keys;  // Per depth, those of the object that is open there.
  const auto watch = [&](int depth, nlohmann::json::parse_event_t event,
                         const nlohmann::json& value) {
    if (depth > kDeepestHeader) throw Error("the header is nested too deep");
    const auto level = static_cast<size_t>(depth);
    if (keys.size() < level + 2) keys.resize(level + 2);
    if (event == nlohmann::json::parse_event_t::object_start) keys[level + 1].clear();
    if (event == nlohmann::json::parse_event_t::key) {
      const auto key = value.get<std::string>();
      if (!keys[level].insert(key).second) throw Error("'" + key + "' is in the header twice");
    }
    return true;
  };
  return nlohmann::json::parse(text, watch);
}

// A count or an offset: JSON integers only, so that neither -1 nor 1e30 passes.
int64_t to_count(const nlohmann::json& value) {
  if (!value.is_number_unsigned()) throw Error("found " + value.dump() + ", expected a count");
  const auto count = value.get<uint64_t>();
  if (count >= uint64_t{1} << 62U) throw Error("the count " + value.dump() + " is beyond 2^62");
  return static_cast<int64_t>(count);
}

StoredTensor to_tensor(const std::string& name, const nlohmann::json& entry) {
  StoredTensor tensor;
  tensor.name = name;
  tensor.dtype_name = entry.at("dtype").get<std::string>();
  const auto* const type = std::ranges::find(kStoredTypes, tensor.dtype_name, &StoredType::name);
  if (type == kStoredTypes.end()) throw Error("unknown dtype '" + tensor.dtype_name + "'");
  tensor.dtype = type->dtype;
  for (const nlohmann::json& axis : entry.at("shape")) tensor.shape.push_back(to_count(axis));
  const nlohmann::json& offsets = entry.at("data_offsets");
  if (!offsets.is_array() || offsets.size() != 2) throw Error("data_offsets are not two numbers");
  tensor.begin = to_count(offsets[0]);
  tensor.end = to_count(offsets[1]);
  const int64_t elements = element_count(tensor.shape);
  if (tensor.end < tensor.begin || (tensor.end - tensor.begin) % type->bytes != 0 ||
      (tensor.end - tensor.begin) / type->bytes != elements) {
    throw Error("bytes " + std::to_string(tensor.begin) + " to " + std::to_string(tensor.end) +
                " do not hold " + tensor.dtype_name + to_string(tensor.shape));
  }
  return tensor;
}

}  // namespace

int64_t safetensors_bytes(std::span<const TensorView> tensors, const Metadata& metadata) {
  return static_cast<int64_t>(header_of(tensors, metadata).size()) + data_bytes(tensors);
}

void write_safetensors(const std::filesystem::path& file, std::span<const TensorView> tensors,
                       const Metadata& metadata, WriteFaults* faults) {
  const std::string header = header_of(tensors, metadata);
  FileWriter writer(file, static_cast<int64_t>(header.size()) + data_bytes(tensors), faults);
  writer.write(header);
  for (const TensorView& tensor : tensors) writer.write(tensor.bytes);
  writer.commit();
}

SafetensorsFile::SafetensorsFile(std::filesystem::path file) : path_(std::move(file)) {
  open();
  try {
    parse_header(read_header());
    check_layout();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  ::close(descriptor_);
}

void SafetensorsFile::refuse(const std::string& reason) const {
  throw Error(path_.string() + ": " + reason);
}

void SafetensorsFile::open() {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) refuse("cannot be opened: " + std::generic_category().message(errno));
  struct stat status {};
  if (::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode)) {
    file_bytes_ = status.st_size;
    return;
  }
  ::close(descriptor_);
  refuse("is no regular file; expected a .safetensors file");
}

void SafetensorsFile::read_at(int64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(descriptor_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse("cannot be read: " + std::generic_category().message(errno));
    if (count == 0) refuse("ended while it was read; was it shortened just now?");
    offset += count;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

std::string SafetensorsFile::read_header() {
  constexpr std::string_view pointer = "version https://git-lfs";
  std::string start(static_cast<size_t>(std::min<int64_t>(file_bytes_, pointer.size())), '\0');
  read_at(0, std::as_writable_bytes(std::span(start)));
  if (start == pointer) {
    refuse("is a git-lfs pointer, not the weights themselves; fetch them with 'git lfs pull'");
  }
  if (file_bytes_ < kLengthBytes) {
    refuse("has " + std::to_string(file_bytes_) + " bytes; a safetensors file has at least 8");
  }
  uint64_t length = 0;
  read_at(0, std::as_writable_bytes(std::span(&length, 1)));
  const int64_t largest = std::min(kLargestHeader, file_bytes_ - kLengthBytes);
  if (length > static_cast<uint64_t>(largest)) {
    refuse("states a header of " + std::to_string(length) + " bytes, expected at most " +
           std::to_string(largest) + "; it is cut short or no safetensors file");
  }
  std::string text(static_cast<size_t>(length), '\0');
  read_at(kLengthBytes, std::as_writable_bytes(std::span(text)));
  data_begin_ = kLengthBytes + static_cast<int64_t>(length);
  return text;
}

void SafetensorsFile::parse_header(const std::string& text) {
  std::string tensor_name;
  try {
    const nlohmann::json header = parse_json_without_duplicates(text);
    if (!header.is_object()) throw Error("the header is no JSON object");
    for (const auto& [name, entry] : header.items()) {
      if (name == kMetadataKey) {
        metadata_ = entry.get<Metadata>();
        continue;
      }
      tensor_name = name;
      tensors_.push_back(to_tensor(name, entry));
      tensor_name.clear();
    }
  } catch (const Error& error) {
    refuse((tensor_name.empty() ? "" : "tensor '" + tensor_name + "': ") + error.what());
  } catch (const nlohmann::json::exception& error) {
    refuse((tensor_name.empty() ? "" : "tensor '" + tensor_name + "': ") +
           "the header is broken: " + error.what());
  }
}

// The tensors must follow each other without overlap or gap, to the end of the file.
void SafetensorsFile::check_layout() {
  std::ranges::sort(tensors_, {}, [](const StoredTensor& t) { return std::pair(t.begin, t.end); });
  int64_t end = 0;
  for (const StoredTensor& tensor : tensors_) {
    if (tensor.begin != end) {
      refuse("tensor '" + tensor.name + "' begins at byte " + std::to_string(tensor.begin) +
             ", expected " + std::to_string(end) +
             (tensor.begin < end ? ": it overlaps the one before it" : ": bytes without an owner"));
    }
    end = tensor.end;
  }
  const int64_t stored = file_bytes_ - data_begin_;
  if (stored == end) return;
  refuse("holds " + std::to_string(stored) + " bytes of tensors, expected " + std::to_string(end) +
         (stored < end ? "; it is cut short, copy it again" : "; something was appended to it"));
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors_, name, &StoredTensor::name);
  return found == tensors_.end() ? nullptr : &*found;
}

void SafetensorsFile::read(std::string_view stored_name, const TensorTarget& target) const {
  const StoredTensor* const tensor = find(stored_name);
  if (tensor == nullptr) refuse("has no tensor '" + std::string(stored_name) + "'");
  if (tensor->dtype != target.type.dtype || tensor->shape != target.type.shape) {
    refuse("tensor '" + tensor->name + "': found " + tensor->dtype_name + to_string(tensor->shape) +
           ", expected " + std::string(olm2::stored_name(target.type.dtype)) +
           to_string(target.type.shape));
  }
  ensure(static_cast<int64_t>(target.bytes.size()) == tensor->end - tensor->begin,
         "safetensors: a target of the wrong size");
  read_at(data_begin_ + tensor->begin, target.bytes);
}

}  // namespace olm2
