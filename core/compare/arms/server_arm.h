// An arm that is a running server with OpenAI's API, asked over HTTP by a process of its own.
#pragma once

#include <memory>
#include <string>

#include "core/client/load.h"
#include "core/compare/arms/orders.h"
#include "core/report/statistics/measured.h"

namespace tenon::compare {

class ServerArm final : public OrderedArm {
 public:
  // `model`: as the server calls it; empty = the only one that it serves. Error: nobody answers
  // there, or it serves several models.
  static Result<std::unique_ptr<ServerArm>> open(const client::ServerSettings& server,
                                                 std::string model);

  Result<Json> answer(const Json& order) override;

 private:
  ServerArm(std::unique_ptr<client::Session> session, std::string model)
      : session_(std::move(session)), model_(std::move(model)) {}
  Json describe() const;
  Result<Json> load(const Json& order);
  Result<Json> run(const Json& order);
  Result<MeasuredPiece> replay(const std::string& cache_salt);

  std::unique_ptr<client::Session> session_;
  std::string model_;
  client::LoadPlan plan_;
};

}  // namespace tenon::compare
