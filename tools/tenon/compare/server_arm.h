// An arm that is a running server with OpenAI's API, asked over HTTP by a process of its own. It
// answers the orders of tools/tenon/compare/arm_command.cc.
#pragma once

#include <memory>
#include <string>

#include "core/client/load.h"
#include "core/report/statistics/measured.h"
#include "tools/tenon/compare/json.h"

namespace tenon {

class CompareServerArm {
 public:
  // `model`: as the server calls it; empty = the only one that it serves. Its key is that of the
  // environment, TENON_API_KEY; `authorities` as in ServerSettings. Error: nobody answers there, or
  // it serves several models.
  static Result<CompareServerArm> open(const std::string& url, std::string model,
                                       const std::string& authorities);

  Result<CompareJson> answer(const CompareJson& order);

 private:
  CompareServerArm(std::unique_ptr<client::Session> session, std::string model)
      : session_(std::move(session)), model_(std::move(model)) {}
  CompareJson describe() const;
  Result<CompareJson> load(const CompareJson& order);
  Result<CompareJson> run(const CompareJson& order);
  Result<MeasuredPiece> replay(const std::string& cache_salt);

  std::unique_ptr<client::Session> session_;
  std::string model_;
  client::LoadPlan plan_;
};

}  // namespace tenon
