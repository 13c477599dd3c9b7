import json
import os
import random
import time
import uuid
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import Request, urlopen

BASE = os.environ["INVENTORY_URL"] + "/inventory"
KEY = os.environ["INVENTORY_KEY"]


class InventoryError(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def call(method, url, headers, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"Authorization": "Bearer " + KEY, **headers}, method=method)
    try:
        response = urlopen(request, timeout=10)
    except HTTPError as error:
        response = error  # every status from 300 on
    with response:
        text = response.read()
        return response.status, response.headers, json.loads(text) if text else None


known = {"etag": "", "items": []}


def list_inventory():
    status, headers, body = call("GET", BASE, {"If-None-Match": known["etag"]})
    if status >= 400:
        raise InventoryError(body["code"], body["message"])
    if status == 200:
        known.update(etag=headers["ETag"], items=body)
    return known["items"]


def set_quantity(item, quantity, reason):
    """Sets the quantity, once, of an item that is still as it was read. The history keeps the reason."""
    tag, key = f'"{item["status"]}-{item["quantity"]}"', str(uuid.uuid4())
    update = {"Content-Type": "application/json", "If-Match": tag, "Idempotency-Key": key, "Change-Reason": reason}
    for attempt in range(1, 11):
        pause_s = min(0.1 * 2**attempt, 10)
        try:
            status, headers, body = call("PATCH", f"{BASE}/{item['petId']}", update, {"quantity": quantity})
            if status == 200:
                return body
            if status < 500 and status not in (408, 429):
                raise InventoryError(body["code"], body["message"])
            pause_s = max(pause_s, int(headers["Retry-After"] or 0))
        except (OSError, HTTPException, ValueError):
            pass  # no response of the service: the connection broke or took too long, or a proxy sent something else
        time.sleep(pause_s * (1 + random.random()))
    raise InventoryError("outcome_unknown", "The update may or may not have happened.")


first = list_inventory()[0]
print(set_quantity(first, first["quantity"] + 1, "new-arrival"))
