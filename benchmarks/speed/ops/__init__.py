"""The operations beside BoTorch's."""
