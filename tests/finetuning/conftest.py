from nano_fixtures import (  # noqa: F401 (fixtures)
    build_encoder,
    config,
    configure,
    nano_checkpoint,
    reviews,
    tokenizer,
    write,
)
