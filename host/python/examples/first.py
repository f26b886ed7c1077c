import torch
import ferrowarp as fw

x = torch.randn(4096, 1024, device="cuda", requires_grad=True)
weight = torch.ones(1024, device="cuda", requires_grad=True)
targets = torch.randint(1024, (4096,), device="cuda")

loss = fw.cross_entropy(fw.rms_norm(x, weight), targets)
loss.backward()
values, columns = fw.top_k(x, 5)
