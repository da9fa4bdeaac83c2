# Two hosts of a cluster share a datastore; each has a disk that is cloned from a template.
terraform {
  required_version = ">= 1.11"
  required_providers {
    gantry = { source = "gantry/gantry" }
  }
}

provider "gantry" {
  # GANTRY_URL and GANTRY_TOKEN_FILE of the environment, and GANTRY_CA for the array's own certificate
}

variable "chap_secrets" {
  type      = map(string)
  ephemeral = true
}

locals {
  hosts = {
    node1 = "iqn.1993-08.org.debian:01:node1"
    node2 = "iqn.1993-08.org.debian:01:node2"
  }
}

data "gantry_pool" "fast" { name = "fast" }
data "gantry_target" "array" {}

resource "gantry_host" "node" {
  for_each     = local.hosts
  name         = each.key
  initiators   = [each.value]
  chap_user    = each.key
  chap_secret  = var.chap_secrets[each.key]
  chap_version = 1 # another number sends another secret
}

resource "gantry_group" "cluster" {
  name  = "cluster"
  hosts = [for node in gantry_host.node : node.name]
}

resource "gantry_volume" "datastore" {
  pool       = data.gantry_pool.fast.name
  name       = "datastore"
  size_bytes = 64 * 1024 * 1024 * 1024
  tags       = { owner = "terraform" }

  lifecycle { prevent_destroy = true }
}

resource "gantry_mapping" "datastore" {
  volume_id = gantry_volume.datastore.id
  host      = gantry_group.cluster.name
  lun       = 10
}

# A template, frozen as a snapshot, and a disk for each host: clones share its blocks.
resource "gantry_volume" "template" {
  pool       = data.gantry_pool.fast.name
  name       = "template"
  size_bytes = 8 * 1024 * 1024 * 1024
}

resource "gantry_snapshot" "template" {
  volume_id = gantry_volume.template.id
  name      = "template-v1"
}

resource "gantry_volume" "disk" {
  for_each   = local.hosts
  pool       = data.gantry_pool.fast.name
  name       = "${each.key}-disk"
  source_id  = gantry_snapshot.template.id
  size_bytes = 16 * 1024 * 1024 * 1024
}

resource "gantry_mapping" "disk" {
  for_each  = local.hosts
  volume_id = gantry_volume.disk[each.key].id
  host      = gantry_host.node[each.key].name
}

output "target" { value = data.gantry_target.array.name }
output "disks" { value = { for node, disk in gantry_volume.disk : node => disk.id } }
