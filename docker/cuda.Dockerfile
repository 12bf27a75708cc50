# jaxrl on NVIDIA GPUs, whose hosts need a driver for CUDA 13 and NVIDIA's container toolkit; all else is in the wheels.
# From the root of a clone: docker build -f docker/cuda.Dockerfile -t jaxrl-cuda .
FROM python:3.12-slim
COPY . /opt/jaxrl
RUN pip install --no-cache-dir '/opt/jaxrl[viz]' 'jax[cuda13]' && jaxrl --version
WORKDIR /work
# In this form jaxrl itself receives SIGTERM, saves and exits with 75.
ENTRYPOINT ["jaxrl"]
CMD ["doctor"]
