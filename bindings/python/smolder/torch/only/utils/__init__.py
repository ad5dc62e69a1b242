"""Parts of torch.utils that only programs written for torch see."""
