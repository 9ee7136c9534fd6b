# mirage-gate for a CI that runs its jobs in containers:
#
#   docker build -t mirage-gate .
#   docker run --rm -v "$PWD:/work" mirage-gate mirage-gate check gen
#
# There is no entry point, which GitLab and others would have to be told to leave out, and no user
# but root, whom their checkouts and reports belong to.
FROM python:3.13-slim AS build
COPY pyproject.toml README.md LICENSE /src/
COPY mirage_gate /src/mirage_gate
COPY schemas /src/schemas
RUN python -m venv /opt/mirage-gate \
  && /opt/mirage-gate/bin/pip install --no-cache-dir --disable-pip-version-check /src

FROM python:3.13-slim
# Git tells which artifacts are committed.
RUN apt-get update \
  && apt-get install -y --no-install-recommends git \
  && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/mirage-gate /opt/mirage-gate
ENV PATH=/opt/mirage-gate/bin:$PATH
WORKDIR /work
CMD ["mirage-gate", "--help"]
