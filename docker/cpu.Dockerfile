# jaxrl on CPUs. From the root of a clone: docker build -f docker/cpu.Dockerfile -t jaxrl .
FROM python:3.12-slim
COPY . /opt/jaxrl
RUN pip install --no-cache-dir '/opt/jaxrl[viz]' && jaxrl --version
WORKDIR /work
# In this form jaxrl itself receives SIGTERM, saves and exits with 75.
ENTRYPOINT ["jaxrl"]
CMD ["doctor"]
