"""Values that libraries with a collate function of their own import from torch.utils.data._utils.collate."""

import re

from smolder.utils.data.collate import default_collate_fn_map as default_collate_fn_map

np_str_obj_array_pattern = re.compile(r"[SaUO]")
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)
