"""Parts of torch.utils.data._utils that libraries import."""
