// The interface of a device: who launches kernels, and what memory they want.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/op.h"

namespace olm2 {

// A node made ready to run: attributes parsed, library objects created.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Bytes of scratch it wants on the device, a function of the node's types alone.
  virtual int64_t workspace_bytes() const { return 0; }
  // Runs to completion.  `workspace` has workspace_bytes(), aligned like every buffer.
  // Allocates nothing (single library-internal allocations of at most 4 KiB excepted).
  virtual void run(std::span<const Tensor> in, std::span<const Tensor> out, void* workspace) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;    // "cpu"
  virtual std::string description() const = 0;  // "cpu (oneDNN 2.6.3, AVX-512, 2 threads)"
  virtual int64_t alignment() const = 0;        // Of every buffer, bytes.
  // Whether kernels may have operands of this type.
  virtual bool computes(DType dtype) const { return dtype != DType::bf16; }
  // Throws Error if this backend cannot run the node.
  virtual std::unique_ptr<Kernel> prepare(const Graph& graph, const Node& node) = 0;
};

}  // namespace olm2
