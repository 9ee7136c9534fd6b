"""What stands in for torch: shapes, strides, types and addresses, and no number in any tensor."""
