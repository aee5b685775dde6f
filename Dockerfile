# syntax=docker/dockerfile:1
# The server, on CPUs and without root: with PyTorch, or for exported graphs alone (--target graphs). See
# docs/guides/serving.md.

FROM python:3.13-slim AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE LICENSE.weights ./
COPY .ci/page_metadata.py .ci/
COPY src src
# Requirements of cloze and its extras serve and onnx, without PyTorch and the packages that export graphs.
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheel . \
    && python -c 'import re, tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
        extras = project["optional-dependencies"]; \
        needed = {*project["dependencies"], *extras["serve"], *extras["onnx"]}; \
        kept = (name for name in needed if re.split("[<>=]", name)[0] not in ("torch", "onnx", "onnxscript")); \
        print(*sorted(kept), sep="\n")' > /wheel/requirements.txt

FROM python:3.13-slim AS base
RUN useradd --uid 1000 --create-home cloze
WORKDIR /home/cloze
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/health', timeout=4)"]
# the variable has a path, not a key
# hadolint ignore=DL3064
ENV CLOZE_HOST=0.0.0.0 CLOZE_API_KEY_FILE=/run/secrets/key
ENTRYPOINT ["cloze", "serve"]

FROM base AS graphs
RUN --mount=from=wheel,source=/wheel,target=/wheel \
    pip install --no-cache-dir --requirement /wheel/requirements.txt \
    && pip install --no-cache-dir --no-deps /wheel/*.whl
USER 1000
ENV CLOZE_MODEL=/graph

FROM base AS server
RUN --mount=from=wheel,source=/wheel,target=/wheel \
    pip install --no-cache-dir 'torch>=2.11,<2.15' --index-url https://download.pytorch.org/whl/cpu \
    && pip install --no-cache-dir --requirement /wheel/requirements.txt \
    && pip install --no-cache-dir --no-deps /wheel/*.whl
USER 1000
