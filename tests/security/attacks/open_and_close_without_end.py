# long
# expect: trapped files, or trapped deadline
# policy: file_calls=5000
"""Open and close without end."""

import os

print("CONTAINED", flush=True)
while True:
    fd = os.open("churn", os.O_RDWR | os.O_CREAT)
    os.write(fd, b"x")
    os.close(fd)
    os.remove("churn")
