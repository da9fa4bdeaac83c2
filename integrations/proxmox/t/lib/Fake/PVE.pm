# Loads the real PVE::Storage with its base classes, outside a cluster.
# SPDX-License-Identifier: AGPL-3.0-or-later
#
# GANTRY_PVE_STORAGE and GANTRY_PVE_COMMON name work trees of pve-storage and pve-common. Modules that
# need a cluster or are written in Rust are empty here; nothing that the tests call needs them.
package Fake::PVE;

use strict;
use warnings;

# A lock of the cluster; replaced by a test that wants one. Without it calls of two nodes overlap freely.
our $lock = sub { my ($code, @words) = @_; return $code->(@words) };

my %bodies = (
    'PVE/Cluster.pm' => q[
        sub cfs_register_file { return } sub cfs_read_file { return { ids => {} } } sub cfs_write_file { return }
        sub cfs_lock_file { return } sub get_vmlist { return { ids => {} } } sub check_cfs_quorum { return 1 }
        sub cfs_lock_storage {
            my ($storage, $timeout, $code, @words) = @_;
            my $result = eval { $Fake::PVE::lock->($code, @words) };
            return $result;
        }],
    'PVE/RPCEnvironment.pm' => 'sub get { return }',
);

sub tree {
    my ($variable, $project) = @_;
    my $folder = $ENV{$variable};
    return "$folder/src" if defined($folder) && -d "$folder/src/PVE";
    die "$variable must name a work tree of $project ('git clone https://github.com/proxmox/$project')\n";
}

sub import {
    my @trees = (tree('GANTRY_PVE_STORAGE', 'pve-storage'), tree('GANTRY_PVE_COMMON', 'pve-common'));
    push @INC, @trees;
    push @INC, sub {
        my ($self, $file) = @_;
        return if $file !~ m{\A(?:PVE|Proxmox)/.*\.pm\z};
        my $package = $file =~ s{/}{::}gr =~ s/\.pm\z//r;
        my $body = $bodies{$file} // '';
        my $text = "package $package; $body sub import { my \$self = shift; my \$caller = caller; no strict 'refs';"
            . " *{\"\${caller}::\$_\"} = \$self->can(\$_) // sub { die \"$package is not here\\n\" } for \@_; return } 1;";
        open(my $handle, '<', \$text) or die "$!\n";
        return $handle;
    };
    require PVE::Storage::Plugin;
    require PVE::Storage::Custom::GantryPlugin;
    # PVE::Storage initialises all plugins when it is loaded.
    PVE::Storage::Custom::GantryPlugin->register();
    require PVE::Storage;
    return;
}

1;
