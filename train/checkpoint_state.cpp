// state.json, and whether two states go together.
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/checkpoint.h"
#include "train/checkpoint_files.h"

namespace olm2 {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kStateVersion = 1;

Json to_json(const ModelConfig& model) {
  return {{"type", model.type},
          {"n_layer", model.n_layer},
          {"n_head", model.n_head},
          {"n_embd", model.n_embd},
          {"vocab_size", model.vocab_size},
          {"context_length", model.context_length},
          {"dropout", model.dropout},
          {"tie_embeddings", model.tie_embeddings},
          {"pad_vocab_to", model.pad_vocab_to}};
}

ModelConfig to_model(const Json& json) {
  ModelConfig model;
  json.at("type").get_to(model.type);
  json.at("n_layer").get_to(model.n_layer);
  json.at("n_head").get_to(model.n_head);
  json.at("n_embd").get_to(model.n_embd);
  json.at("vocab_size").get_to(model.vocab_size);
  json.at("context_length").get_to(model.context_length);
  json.at("dropout").get_to(model.dropout);
  json.at("tie_embeddings").get_to(model.tie_embeddings);
  json.at("pad_vocab_to").get_to(model.pad_vocab_to);
  return model;
}

// Collects "key: checkpoint 2, here 3".
struct Differences {
  std::string text;
  void compare(std::string_view key, const Json& found, const Json& wanted) {
    if (found == wanted) return;
    text += "\n  " + std::string(key) + ": found " + found.dump() +
            " in the checkpoint, expected " + wanted.dump();
  }
  void compare_sizes(const ModelConfig& found, const ModelConfig& wanted) {
    const Json found_json = to_json(found);
    const Json wanted_json = to_json(wanted);
    for (const auto& [key, value] : found_json.items()) {
      if (key != "dropout") compare("model." + key, value, wanted_json.at(key));
    }
  }
};

}  // namespace

std::string to_state_text(const CheckpointState& state) {
  const Json json = {{"version", kStateVersion},
                     {"step", state.step},
                     {"tokens", state.tokens},
                     {"data_position", state.data_position},
                     {"moments_began", state.moments_began},
                     {"seed", state.seed},
                     {"sequence_length", state.sequence_length},
                     {"tokenizer", state.tokenizer},
                     {"model", to_json(state.model)},
                     {"hashes", state.hashes}};
  return json.dump(2) + "\n";
}

CheckpointState load_state(const std::filesystem::path& checkpoint) {
  const std::filesystem::path file = checkpoint / kStateFile;
  const std::string text = read_file(file);
  try {
    const Json json = Json::parse(text);
    const int version = json.at("version").get<int>();
    if (version != kStateVersion) {
      throw Error(file.string() + ": found version " + std::to_string(version) + ", expected " +
                  std::to_string(kStateVersion) + "; it was written by another version of olm2");
    }
    CheckpointState state;
    json.at("step").get_to(state.step);
    json.at("tokens").get_to(state.tokens);
    json.at("data_position").get_to(state.data_position);
    json.at("moments_began").get_to(state.moments_began);
    json.at("seed").get_to(state.seed);
    json.at("sequence_length").get_to(state.sequence_length);
    json.at("tokenizer").get_to(state.tokenizer);
    state.model = to_model(json.at("model"));
    json.at("hashes").get_to(state.hashes);
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw Error(file.string() + ": is broken: " + error.what());
  }
}

void check_resumable(const std::filesystem::path& checkpoint, const CheckpointState& found,
                     const CheckpointState& wanted, bool fresh_optimizer) {
  Differences differences;
  differences.compare_sizes(found.model, wanted.model);
  differences.compare("model.dropout", found.model.dropout, wanted.model.dropout);
  differences.compare("train.sequence_length", found.sequence_length, wanted.sequence_length);
  differences.compare("train.seed", found.seed, wanted.seed);
  differences.compare("data.tokenizer", found.tokenizer, wanted.tokenizer);
  if (!differences.text.empty()) {
    throw Error(checkpoint.string() + ": does not fit this run:" + differences.text +
                "\nSet these keys as in the checkpoint, or choose another output.dir.");
  }
  if (!fresh_optimizer && !has_moments(checkpoint)) {
    throw Error(checkpoint.string() + ": holds weights only, " + std::string(kMomentsFile) +
                " is missing; train.fresh_optimizer = true starts with new moments");
  }
}

void check_same_model(const std::filesystem::path& checkpoint, const ModelConfig& found,
                      const ModelConfig& wanted) {
  Differences differences;
  differences.compare_sizes(found, wanted);
  if (differences.text.empty()) return;
  throw Error(checkpoint.string() + ": holds another model:" + differences.text);
}

}  // namespace olm2
