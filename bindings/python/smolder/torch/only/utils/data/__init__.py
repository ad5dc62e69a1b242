"""Parts of torch.utils.data that only programs written for torch see."""
