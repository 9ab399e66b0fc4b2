#include "train/safetensors.h"

#include <array>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/train/scratch_folder.h"

namespace olm2 {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::array<float, 6> kFloats = {1.5F, -2, 3e-38F, 0, -0.0F, 6};
const std::array<int32_t, 3> kIntegers = {7, -8, 9};

std::vector<TensorView> two_tensors() {
  return {{"b.weight", {{2, 3}, DType::f32}, std::as_bytes(std::span(kFloats))},
          {"a.index", {{3}, DType::i32}, std::as_bytes(std::span(kIntegers))}};
}

std::string with_header(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + header + std::string(data_bytes, 'x');
}

// What is said about a file with this content.
std::string refusal(const std::string& content) {
  const ScratchFolder folder;
  std::ofstream(folder / "x.safetensors", std::ios::binary) << content;
  try {
    const SafetensorsFile file(folder / "x.safetensors");
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("x.safetensors"));
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << content;
  return "";
}

TEST(Safetensors, WrittenTensorsAreReadBack) {
  const ScratchFolder folder;
  const auto path = folder / "x.safetensors";
  write_safetensors(path, two_tensors(), {{"format", "pt"}});
  EXPECT_EQ(static_cast<int64_t>(std::filesystem::file_size(path)),
            safetensors_bytes(two_tensors(), {{"format", "pt"}}));

  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  ASSERT_EQ(file.tensors().size(), 2U);
  EXPECT_EQ(file.tensors()[0].name, "b.weight");
  EXPECT_EQ(file.find("c"), nullptr);
  std::array<float, 6> floats{};
  std::array<int32_t, 3> integers{};
  file.read("b.weight", {"b", {{2, 3}, DType::f32}, std::as_writable_bytes(std::span(floats))});
  file.read("a.index", {"a", {{3}, DType::i32}, std::as_writable_bytes(std::span(integers))});
  EXPECT_EQ(std::memcmp(floats.data(), kFloats.data(), sizeof floats), 0);
  EXPECT_EQ(integers, kIntegers);
}

TEST(Safetensors, EqualTensorsGiveEqualBytesAlsoWhenWritesAreShort) {
  const ScratchFolder folder;
  write_safetensors(folder / "a", two_tensors());
  WriteFaults short_writes;
  short_writes.largest_write = 3;
  write_safetensors(folder / "b", two_tensors(), {}, &short_writes);
  EXPECT_EQ(read_file(folder / "a"), read_file(folder / "b"));
}

TEST(Safetensors, EmptyAndScalarTensorsAreFine) {
  const ScratchFolder folder;
  const std::array<double, 1> scalar = {0.5};
  const std::vector<TensorView> tensors = {
      {"none", {{0, 5}, DType::f32}, {}},
      {"scalar", {{}, DType::f64}, std::as_bytes(std::span(scalar))}};
  write_safetensors(folder / "x", tensors);
  const SafetensorsFile file(folder / "x");
  EXPECT_EQ(file.tensors().size(), 2U);
  EXPECT_EQ(file.find("scalar")->shape, Shape{});
}

TEST(Safetensors, ReadsAFileMadeByAnotherProgram) {
  const SafetensorsFile file(std::string(OLM2_SOURCE_DIR) +
                             "/tests/data/reference/odd/model.safetensors");
  const StoredTensor* const tensor = file.find("transformer.wte.weight");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->shape, (Shape{509, 60}));
  std::vector<float> values(509 * 60);
  file.read("transformer.wte.weight",
            {"wte", {{509, 60}, DType::f32}, std::as_writable_bytes(std::span(values))});
  EXPECT_NE(values.front(), 0.0F);
}

// --- broken files (O21) -----------------------------------------------------------------------

TEST(Safetensors, AFileCutShortAnywhereIsRefused) {
  const ScratchFolder folder;
  write_safetensors(folder / "whole", two_tensors());
  const std::string whole = read_file(folder / "whole");
  EXPECT_THAT(refusal(whole.substr(0, whole.size() - 1)),
              AllOf(HasSubstr("holds 35 bytes"), HasSubstr("expected 36"), HasSubstr("cut short")));
  for (size_t size = 0; size < whole.size(); ++size) refusal(whole.substr(0, size));
  EXPECT_THAT(refusal(whole + "!"), HasSubstr("appended"));
}

TEST(Safetensors, AHugeHeaderIsRefusedWithoutAllocatingIt) {
  const uint64_t length = uint64_t{1} << 60U;
  std::string text(64, ' ');
  std::memcpy(text.data(), &length, 8);
  EXPECT_THAT(refusal(text), HasSubstr("header of 1152921504606846976 bytes"));
}

TEST(Safetensors, AGitLfsPointerIsRecognised) {
  EXPECT_THAT(refusal("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
              AllOf(HasSubstr("git-lfs pointer"), HasSubstr("git lfs pull")));
}

TEST(Safetensors, ATensorTwiceIsRefused) {
  const std::string tensor = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_THAT(refusal(with_header("{" + tensor + "," + tensor + "}", 4)),
              AllOf(HasSubstr("'a'"), HasSubstr("twice")));
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

TEST(Safetensors, AHeaderThatContradictsItselfIsRefused) {
  EXPECT_THAT(refusal(with_header(one("F12", "[1]", "[0,4]"), 4)), HasSubstr("unknown dtype"));
  EXPECT_THAT(refusal(with_header(one("F64", "[1]", "[0,4]"), 4)), HasSubstr("do not hold F64(1)"));
  EXPECT_THAT(refusal(with_header(one("F32", "[2]", "[0,4]"), 4)), HasSubstr("do not hold"));
  EXPECT_THAT(refusal(with_header(one("F32", "[1]", "[4,8]"), 8)), HasSubstr("without an owner"));
  EXPECT_THAT(refusal(with_header(one("F32", "[1]", "[4,0]"), 4)), HasSubstr("do not hold"));
  EXPECT_THAT(refusal(with_header(one("F32", "[-1]", "[0,4]"), 4)), HasSubstr("expected a count"));
  EXPECT_THAT(refusal(with_header(one("F32", "[1e30]", "[0,4]"), 4)),
              HasSubstr("expected a count"));
  EXPECT_THAT(refusal(with_header(one("F32", "[4294967296,4294967296]", "[0,0]"), 0)),
              HasSubstr("'a'"));
  EXPECT_THAT(refusal(with_header(one("F32", "[1]", "[0,4,8]"), 4)), HasSubstr("two numbers"));
  EXPECT_THAT(refusal(with_header(one("F32", "[1]", "[0,18446744073709551615]"), 4)),
              HasSubstr("beyond 2^62"));
}

TEST(Safetensors, OverlappingTensorsAreRefused) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})";
  EXPECT_THAT(refusal(with_header(header, 8)), AllOf(HasSubstr("'b'"), HasSubstr("overlaps")));
}

TEST(Safetensors, AHeaderThatIsNoJsonIsRefused) {
  EXPECT_THAT(refusal(with_header("{\"a\":", 0)), HasSubstr("header is broken"));
  EXPECT_THAT(refusal(with_header("[]", 0)), HasSubstr("no JSON object"));
  EXPECT_THAT(refusal(with_header("{\"a\":{}}", 0)), HasSubstr("'a'"));
  EXPECT_THAT(refusal(with_header("{\"a\":5}", 0)), HasSubstr("'a'"));
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "{\"a\":";
  EXPECT_THAT(refusal(with_header(deep, 0)), HasSubstr("too deep"));
}

TEST(Safetensors, NoRegularFileIsRefused) {
  const ScratchFolder folder;
  EXPECT_THROW(SafetensorsFile{folder.path()}, Error);
  EXPECT_THROW(SafetensorsFile{folder / "missing"}, Error);
}

TEST(Safetensors, ATensorOfAnotherTypeIsRefusedWhenRead) {
  const ScratchFolder folder;
  write_safetensors(folder / "x", two_tensors());
  const SafetensorsFile file(folder / "x");
  std::array<float, 6> out{};
  const auto message = [&](const std::string& name, const ValueType& type) -> std::string {
    try {
      file.read(name, {"t", type, std::as_writable_bytes(std::span(out))});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message("a.index", {{3}, DType::f32}),
              AllOf(HasSubstr("found I32(3)"), HasSubstr("expected F32(3)")));
  EXPECT_THAT(message("b.weight", {{3, 2}, DType::f32}),
              AllOf(HasSubstr("found F32(2,3)"), HasSubstr("expected F32(3,2)")));
  EXPECT_THAT(message("c", {{3}, DType::f32}), HasSubstr("no tensor 'c'"));
}

TEST(Safetensors, ATypeNobodyReadsIsNoReasonToRefuseTheFile) {
  const ScratchFolder folder;
  write_file(folder / "x", with_header(one("BOOL", "[4]", "[0,4]"), 4));
  const SafetensorsFile file(folder / "x");
  EXPECT_EQ(file.find("a")->dtype_name, "BOOL");
  EXPECT_FALSE(file.find("a")->dtype.has_value());
}

// --- writing files that are whole or absent ---------------------------------------------------

TEST(Files, AFullDiskLeavesTheOldFileAndTellsNeededAndFree) {
  const ScratchFolder folder;
  write_file(folder / "x", "old");
  for (int64_t room = 0; room < 5; ++room) {
    WriteFaults faults;
    faults.bytes_until_full = room;
    try {
      write_file(folder / "x", "new!!", &faults);
      ADD_FAILURE() << "room " << room;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("needed 5 bytes"), HasSubstr("free ")));
    }
    EXPECT_EQ(read_file(folder / "x"), "old");
    EXPECT_FALSE(std::filesystem::exists(folder / "x.tmp"));
  }
}

TEST(Files, PointsArePassedInOrder) {
  const ScratchFolder folder;
  std::vector<WritePoint> points;
  WriteFaults faults;
  faults.at = [&](WritePoint point, const std::filesystem::path& file) {
    points.push_back(point);
    EXPECT_EQ(std::filesystem::exists(file), point == WritePoint::renamed);
  };
  write_file(folder / "x", "text", &faults);
  EXPECT_THAT(points, testing::ElementsAre(WritePoint::opened, WritePoint::written,
                                           WritePoint::synced, WritePoint::renamed));
}

TEST(Files, AFolderThatIsNotThereIsAnError) {
  const ScratchFolder folder;
  EXPECT_THROW(write_file(folder / "no/x", "text"), Error);
  EXPECT_THROW(read_file(folder / "no/x"), Error);
}

}  // namespace
}  // namespace olm2
