#include "smolder/core/device.h"

#include <charconv>

#include "smolder/core/error.h"

namespace smolder {

std::string to_string(Device d) {
  if (d.type == DeviceType::kCPU) return "cpu";
  return "cuda:" + std::to_string(d.index);
}

Device parse_device(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view type = text.substr(0, colon);
  SMOLDER_CHECK(type == "cpu" || type == "cuda", RuntimeError,
                "Expected one of cpu, cuda device type at start of device string: ", type);
  Device d{type == "cpu" ? DeviceType::kCPU : DeviceType::kCUDA, 0};
  if (colon == std::string_view::npos) return d;

  const std::string_view digits = text.substr(colon + 1);
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), d.index);
  SMOLDER_CHECK(failure == std::errc{} && end == digits.data() + digits.size() && d.index >= 0, RuntimeError,
                "Invalid device string: '", text, "'; the index must be a whole number from 0 to 127");
  SMOLDER_CHECK(d.type == DeviceType::kCUDA || d.index == 0, RuntimeError, "Invalid device string: '", text,
                "'; there is one cpu device, 'cpu'");
  return d;
}

}  // namespace smolder
