// What detectors call beside ATen (torchvision), and random tensors.
#include "frontends/aten/translate.h"

namespace xyntra::aten {

// Boxes by falling score, of which each drops those that overlap it too much.
Item non_maximum_suppression(Call& c) {
  const ValueId boxes = c.unsqueeze(c.cast(c.tensor("dets"), DType::F32), {0});
  const ValueId scores = c.unsqueeze(c.cast(c.tensor("scores"), DType::F32), {0, 1});
  const ValueId all = c.integers_value({kToTheEnd});
  const ValueId threshold = c.constant(
      Tensor::from<float>(DType::F32, {1}, std::vector<float>{static_cast<float>(c.real("iou_threshold"))}));
  const ValueId selected = c.op("NonMaxSuppression", {boxes, scores, all, threshold});
  return c.op("Gather", {selected, c.whole_value(DType::I64, 2)}, {{"axis", std::int64_t{1}}});
}

// The first number of a region is the image it is in.
Item roi_align(Call& c) {
  const ValueId x = c.tensor("input"), rois = c.tensor("rois");
  const ValueId image =
      c.cast(c.op("Gather", {rois, c.whole_value(DType::I64, 0)}, {{"axis", std::int64_t{1}}}), DType::I64);
  const ValueId corners = c.slice(rois, 1, whole(1), whole(5));
  return c.op("RoiAlign", {x, corners, image},
              {{"coordinate_transformation_mode",
                std::string(c.flag("aligned") ? "half_pixel" : "output_half_pixel")},
               {"output_height", c.integer("pooled_height")},
               {"output_width", c.integer("pooled_width")},
               {"sampling_ratio", std::max<std::int64_t>(c.integer("sampling_ratio"), 0)},
               {"spatial_scale", static_cast<float>(c.real("spatial_scale"))}});
}

// Of this library's own generator: the same elements in every run, and not torch's.
Item random_tensor(Call& c) {
  const std::string_view how = c.detail();
  const DType dtype = (c.has("dtype") ? c.dtype("dtype") : std::nullopt).value_or(DType::F32);
  const std::string op(how.starts_with("normal") ? "RandomNormal" : "RandomUniform");
  if (how.ends_with("like")) {
    const ValueId x = c.tensor("self");
    Attributes attributes;
    if (c.dtype("dtype")) attributes["dtype"] = onnx_code(dtype);
    return c.op(op + "Like", {x}, std::move(attributes));
  }
  return c.op(op, {}, {{"shape", c.integers("size")}, {"dtype", onnx_code(dtype)}});
}

}  // namespace xyntra::aten
