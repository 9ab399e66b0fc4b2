// Declares a network's parameters and remembers how each one starts.
#pragma once

#include <string>
#include <vector>

#include "models/model.h"

namespace olm2 {

class Parameters {
 public:
  Parameters(Graph& graph, DType dtype) : graph_(graph), dtype_(dtype) {}

  ValueId zeros(const std::string& name, Shape shape) {
    return add(name, std::move(shape), {.kind = ParameterInit::Kind::zeros, .std = 0});
  }
  ValueId ones(const std::string& name, Shape shape) {
    return add(name, std::move(shape), {.kind = ParameterInit::Kind::ones, .std = 0});
  }
  ValueId normal(const std::string& name, Shape shape, double std) {
    return add(name, std::move(shape), {.kind = ParameterInit::Kind::normal, .std = std});
  }
  std::vector<Parameter> take() { return std::move(parameters_); }

 private:
  ValueId add(const std::string& name, Shape shape, ParameterInit init) {
    const ValueId value = graph_.add_source(name, {std::move(shape), dtype_}, Role::parameter);
    parameters_.push_back({value, init});
    return value;
  }
  Graph& graph_;
  DType dtype_;
  std::vector<Parameter> parameters_;
};

}  // namespace olm2
