#include "train/tensor_class.h"

#include <algorithm>

namespace olm2 {

std::string class_of_name(std::string_view name) {
  std::string result;
  while (true) {
    const size_t dot = std::min(name.find('.'), name.size());
    const std::string_view part = name.substr(0, dot);
    const bool is_number =
        !part.empty() && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    // "name.1" is a further output of a node, not a layer.
    const bool is_last = dot == name.size();
    result += is_number && !is_last ? std::string("*") : std::string(part);
    if (is_last) return result;
    result += '.';
    name.remove_prefix(dot + 1);
  }
}

std::string class_of_buffer(const Graph& graph, const Buffer& buffer) {
  if (buffer.name.starts_with("workspace of ")) return "scratch of kernels";
  const ValueId id = graph.find_or_invalid(buffer.name);
  if (!id.valid()) return class_of_name(buffer.name);
  const Value& value = graph.value(id);
  switch (value.role) {
    case Role::input:
      return "inputs";
    case Role::parameter:
      return "parameters";
    case Role::gradient:
      return "gradients";
    case Role::moment:
      return "optimizer moments";
    case Role::activation:
      break;
  }
  const bool is_forward =
      value.producer.valid() && graph.node(value.producer).phase == Phase::forward;
  return is_forward ? class_of_name(value.name) : "gradients of activations";
}

}  // namespace olm2
