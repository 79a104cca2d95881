"""What a bundle needs beside this package: whether it is there (`needs`), and installing it (`installer`)."""
