package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"

	inventory "inventory.test/contract/generated/go"
)

func main() {
	ctx := context.Background()
	withKey := func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+os.Getenv("INVENTORY_KEY"))
		return nil
	}
	client := must(inventory.NewClientWithResponses(os.Getenv("INVENTORY_URL"), inventory.WithRequestEditorFn(withKey)))

	list := must(client.ListInventoryWithResponse(ctx, nil))
	asSeen := &inventory.UpdateInventoryParams{IfMatch: pointerTo(`"available-12"`)}
	body := inventory.InventoryUpdate{Quantity: 13}
	once := &inventory.UpdateInventoryParams{IfMatch: asSeen.IfMatch, IdempotencyKey: pointerTo("oapi-codegen")}
	updated := must(client.UpdateInventoryWithResponse(ctx, 1, once, body))
	repeated := must(client.UpdateInventoryWithResponse(ctx, 1, once, body))
	changed := must(client.UpdateInventoryWithResponse(ctx, 1, asSeen, body))
	missing := must(client.UpdateInventoryWithResponse(ctx, 404, nil, body))

	must(0, json.NewEncoder(os.Stdout).Encode(map[string]any{
		"list":     list.JSON200,
		"updated":  updated.JSON200,
		"repeated": repeated.JSON200,
		"replayed": repeated.HTTPResponse.Header.Get("Idempotent-Replayed"),
		"changed":  changed.JSON412.Code,
		"code":     missing.JSON404.Code,
		"status":   missing.JSON404.Status,
	}))
}

func pointerTo(text string) *string { return &text }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
