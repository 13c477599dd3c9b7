import json
import os

from inventory_client import ApiClient, Configuration, Error, InventoryApi, InventoryUpdate
from inventory_client.exceptions import ApiException, NotFoundException

configuration = Configuration(host=os.environ["INVENTORY_URL"], access_token=os.environ["INVENTORY_KEY"])

with ApiClient(configuration) as client:
    api = InventoryApi(client)
    stock = api.list_inventory()
    updated, repeated = (
        api.update_inventory_with_http_info(
            1, InventoryUpdate(quantity=13), if_match='"available-12"', idempotency_key="openapi-generator"
        )
        for _ in range(2)
    )
    try:
        api.update_inventory(1, InventoryUpdate(quantity=13), if_match='"available-12"')
        raise SystemExit("an update of a pet that has changed went through")
    except ApiException as refusal:
        changed = refusal.data
        assert isinstance(changed, Error)
    try:
        api.update_inventory(404, InventoryUpdate(quantity=1))
        raise SystemExit("an update of a pet that is not there went through")
    except NotFoundException as refusal:
        error = refusal.data
        assert isinstance(error, Error)

outcome = {
    "list": [item.to_dict() for item in stock],
    "updated": updated.data.to_dict(),
    "repeated": repeated.data.to_dict(),
    "replayed": (repeated.headers or {}).get("Idempotent-Replayed"),
    "changed": changed.code,
    "code": error.code,
    "status": error.status,
}
print(json.dumps(outcome))
